//! The policy language of oslo.policy: `role:admin or (rule:owner and not project_id:%(project_id)s)`.
//!
//! Grammar: `not` binds strongest, then `and`, then `or`; parentheses group. `@` and the empty text always hold, `!`
//! never holds. A check is `kind:match`. `rule:NAME` refers to another rule, and `role:NAME` requires a role. Any other
//! kind is a credential (`user_id`, `project_id`, `is_admin`, `system_scope`...) or a literal (`'text'`, `True`,
//! `None`) that must equal the match. `%(name)s` in the match is an attribute of the target. The parser also reads the
//! older list form (`[["role:a", "rule:b"], ["role:c"]]`), in which all checks of at least one inner list must hold.
//! `http:` checks are refused, because a decision must not depend on the answer of another server.

use std::fmt;

use super::PolicyTarget;
use crate::auth::Caller;

/// A parsed check string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyCheck {
    Always,
    Never,
    Not(Box<PolicyCheck>),
    And(Vec<PolicyCheck>),
    Or(Vec<PolicyCheck>),
    Rule(String),
    Role(Template),
    /// Compares the credential or literal on the left with the template on the right.
    Equals(CheckOperand, Template),
}

/// The left side of a generic check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOperand {
    Credential(String),
    Literal(String),
}

/// Text with `%(name)s` places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Target(String),
}

/// A malformed check string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error("{0:?} is not of the form kind:match")]
    NotACheck(String),
    #[error("remote checks ({0:?}) are not supported")]
    Remote(String),
    #[error("{0:?} ends where a check must follow")]
    Incomplete(String),
    #[error("{found:?} is not allowed at its place in {text:?}")]
    Misplaced { found: String, text: String },
    #[error("a parenthesis in {0:?} is not closed")]
    Unclosed(String),
    #[error("it is nested deeper than {DEEPEST} levels")]
    TooDeep,
    #[error("%(...) in {0:?} is not closed by )s")]
    Template(String),
}

#[derive(Debug, Clone, PartialEq)]
enum Token<'a> {
    Open,
    Close,
    And,
    Or,
    Not,
    Check(&'a str),
}

/// Splits the text at white space. Then splits the parentheses at both ends of each word from the word, as oslo.policy
/// does. The closing parenthesis in `%(project_id)s` stays in the word, because a letter follows it.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for word in text.split_whitespace() {
        let inner = word.trim_start_matches('(');
        tokens.extend(std::iter::repeat_n(Token::Open, word.len() - inner.len()));
        let bare = inner.trim_end_matches(')');
        if !bare.is_empty() {
            tokens.push(match bare.to_ascii_lowercase().as_str() {
                "and" => Token::And,
                "or" => Token::Or,
                "not" => Token::Not,
                _ => Token::Check(bare),
            });
        }
        tokens.extend(std::iter::repeat_n(Token::Close, inner.len() - bare.len()));
    }
    tokens
}

/// Parses a check string.
pub fn parse(text: &str) -> Result<PolicyCheck, CheckError> {
    let tokens = tokens(text);
    if tokens.is_empty() {
        return Ok(PolicyCheck::Always);
    }
    let mut parser = Parser { text, tokens: &tokens, depth: 0 };
    let check = parser.or()?;
    match parser.tokens.first() {
        None => Ok(check),
        Some(extra) => Err(CheckError::Misplaced { found: extra.to_string(), text: text.to_owned() }),
    }
}

/// Parses the list form: all checks of one inner list must hold, and one such list suffices.
pub fn parse_lists(alternatives: &[Vec<String>]) -> Result<PolicyCheck, CheckError> {
    if alternatives.is_empty() {
        return Ok(PolicyCheck::Always);
    }
    let mut any = Vec::new();
    for all in alternatives.iter().filter(|all| !all.is_empty()) {
        any.push(join(all.iter().map(|check| one(check)).collect::<Result<_, _>>()?, PolicyCheck::And));
    }
    Ok(if any.is_empty() { PolicyCheck::Never } else { join(any, PolicyCheck::Or) })
}

fn join(mut checks: Vec<PolicyCheck>, of: fn(Vec<PolicyCheck>) -> PolicyCheck) -> PolicyCheck {
    if checks.len() == 1 { checks.swap_remove(0) } else { of(checks) }
}

/// The deepest nesting of a check. Each level takes stack, both in the parser and in [`PolicyCheck::holds`].
const DEEPEST: usize = 100;

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token<'a>],
    depth: usize,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<PolicyCheck, CheckError> {
        let mut checks = vec![self.and()?];
        while self.take(&Token::Or) {
            checks.push(self.and()?);
        }
        Ok(join(checks, PolicyCheck::Or))
    }

    fn and(&mut self) -> Result<PolicyCheck, CheckError> {
        let mut checks = vec![self.unary()?];
        while self.take(&Token::And) {
            checks.push(self.unary()?);
        }
        Ok(join(checks, PolicyCheck::And))
    }

    fn unary(&mut self) -> Result<PolicyCheck, CheckError> {
        let Some((token, rest)) = self.tokens.split_first() else {
            return Err(CheckError::Incomplete(self.text.to_owned()));
        };
        self.tokens = rest;
        if self.depth >= DEEPEST && matches!(token, Token::Not | Token::Open) {
            return Err(CheckError::TooDeep);
        }
        match token {
            Token::Not => {
                self.depth += 1;
                let check = self.unary()?;
                self.depth -= 1;
                Ok(PolicyCheck::Not(Box::new(check)))
            }
            Token::Open => {
                self.depth += 1;
                let check = self.or()?;
                self.depth -= 1;
                if self.take(&Token::Close) { Ok(check) } else { Err(CheckError::Unclosed(self.text.to_owned())) }
            }
            Token::Check(text) => one(text),
            Token::Close | Token::And | Token::Or => {
                Err(CheckError::Misplaced { found: token.to_string(), text: self.text.to_owned() })
            }
        }
    }

    fn take(&mut self, wanted: &Token<'_>) -> bool {
        match self.tokens.split_first() {
            Some((token, rest)) if token == wanted => {
                self.tokens = rest;
                true
            }
            _ => false,
        }
    }
}

fn one(text: &str) -> Result<PolicyCheck, CheckError> {
    match text {
        "@" => return Ok(PolicyCheck::Always),
        "!" => return Ok(PolicyCheck::Never),
        _ => {}
    }
    let (kind, value) = text.split_once(':').ok_or_else(|| CheckError::NotACheck(text.to_owned()))?;
    match kind {
        "rule" => Ok(PolicyCheck::Rule(value.to_owned())),
        "role" => Ok(PolicyCheck::Role(template(value)?)),
        "http" | "https" => Err(CheckError::Remote(text.to_owned())),
        _ => Ok(PolicyCheck::Equals(left(kind), template(value)?)),
    }
}

/// The left side of a generic check: a Python literal, or else the name of a credential.
fn left(kind: &str) -> CheckOperand {
    for quote in ['\'', '"'] {
        if let Some(inner) = kind.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return CheckOperand::Literal(inner.to_owned());
        }
    }
    if matches!(kind, "True" | "False" | "None") || kind.parse::<i64>().is_ok() {
        return CheckOperand::Literal(kind.to_owned());
    }
    CheckOperand::Credential(kind.to_owned())
}

fn template(text: &str) -> Result<Template, CheckError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("%(") {
        let (name, tail) = after.split_once(")s").ok_or_else(|| CheckError::Template(text.to_owned()))?;
        if !before.is_empty() {
            parts.push(TemplatePart::Text(before.to_owned()));
        }
        parts.push(TemplatePart::Target(name.to_owned()));
        rest = tail;
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(TemplatePart::Text(rest.to_owned()));
    }
    Ok(Template(parts))
}

impl Template {
    /// Fills in the target's attributes. `None` if the target lacks an attribute that the template names.
    fn fill(&self, target: &PolicyTarget) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                TemplatePart::Text(fixed) => text.push_str(fixed),
                TemplatePart::Target(name) => text.push_str(target.get(name)?),
            }
        }
        Some(text)
    }
}

impl PolicyCheck {
    /// The rules that the check refers to.
    pub fn references(&self) -> Vec<&str> {
        match self {
            Self::Rule(name) => vec![name],
            Self::Not(inner) => inner.references(),
            Self::And(checks) | Self::Or(checks) => checks.iter().flat_map(Self::references).collect(),
            Self::Always | Self::Never | Self::Role(_) | Self::Equals(..) => Vec::new(),
        }
    }

    /// Whether the check holds. `rule` answers whether another rule holds.
    pub fn holds(&self, caller: &Caller, target: &PolicyTarget, rule: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Not(inner) => !inner.holds(caller, target, rule),
            Self::And(checks) => checks.iter().all(|check| check.holds(caller, target, rule)),
            Self::Or(checks) => checks.iter().any(|check| check.holds(caller, target, rule)),
            Self::Rule(name) => rule(name),
            Self::Role(role) => role.fill(target).is_some_and(|role| caller.has_role(&role)),
            Self::Equals(CheckOperand::Literal(literal), value) => {
                value.fill(target).is_some_and(|value| value == *literal)
            }
            Self::Equals(CheckOperand::Credential(name), value) => {
                value.fill(target).is_some_and(|value| has_credential(caller, name, &value))
            }
        }
    }
}

/// A credential that the caller lacks equals no value. For example, a token without a project never owns a target
/// without a project.
fn has_credential(caller: &Caller, name: &str, value: &str) -> bool {
    match name {
        "user_id" | "user" => caller.user.as_str() == value && !caller.is_anonymous(),
        "project_id" | "tenant_id" | "tenant" => caller.project.as_ref().is_some_and(|id| id.as_str() == value),
        "domain_id" => caller.domain.as_ref().is_some_and(|id| id.as_str() == value),
        "user_domain_id" => caller.user_domain.as_ref().is_some_and(|id| id.as_str() == value),
        "project_domain_id" => caller.project_domain.as_ref().is_some_and(|id| id.as_str() == value),
        "system_scope" | "system" => caller.system_scope.as_deref() == Some(value),
        // Keystone's own rules contain `is_admin:1`.
        "is_admin" => value == if caller.is_admin { "True" } else { "False" } || (value == "1" && caller.is_admin),
        "is_admin_project" => value == if caller.is_admin_project { "True" } else { "False" },
        "roles" => caller.roles.iter().any(|role| role == value),
        "user_name" => caller.user_name == value,
        "project_name" => caller.project_name.as_deref() == Some(value),
        _ => false,
    }
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "(",
            Self::Close => ")",
            Self::And => "and",
            Self::Or => "or",
            Self::Not => "not",
            Self::Check(text) => text,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use chronova_events::ids::{ProjectId, UserId};

    use super::*;

    fn caller(roles: &[&str]) -> Caller {
        let mut caller = Caller::of_user(UserId::new("u1"));
        caller.project = Some(ProjectId::new("p1"));
        caller.roles = roles.iter().map(|role| (*role).to_owned()).collect();
        caller
    }

    fn holds(text: &str, roles: &[&str]) -> bool {
        let target = PolicyTarget::default().with("project_id", "p1").with("user_id", "u2").with("kind", "open");
        parse(text).unwrap().holds(&caller(roles), &target, &|name| name == "yes")
    }

    #[test]
    fn deeply_nested_checks_are_refused() {
        for (open, close) in [("(", ")"), ("not ", "")] {
            let nested = |times: usize| format!("{}role:a{}", open.repeat(times), close.repeat(times));
            assert!(parse(&nested(DEEPEST)).is_ok());
            assert_eq!(parse(&nested(DEEPEST + 1)), Err(CheckError::TooDeep));
            assert_eq!(parse(&nested(100_000)), Err(CheckError::TooDeep));
        }
    }

    #[test]
    fn literals_and_operators() {
        assert!(holds("", &[]) && holds("@", &[]) && !holds("!", &[]));
        assert!(holds("not !", &[]) && !holds("not @", &[]));
        assert!(holds("rule:yes", &[]) && !holds("rule:no", &[]));
        assert!(holds("role:Admin", &["aDMIN"]));
        assert!(holds("@ or ! and !", &[]), "or binds before and");
        assert!(!holds("(@ or !) and !", &[]));
        assert!(holds("! OR ((rule:yes))", &[]));
        assert!(holds("not rule:no and not (rule:no or !)", &[]));
    }

    #[test]
    fn credentials_and_targets() {
        assert!(holds("project_id:%(project_id)s", &[]));
        assert!(!holds("user_id:%(user_id)s", &[]));
        assert!(holds("(role:member and project_id:%(project_id)s) or user_id:%(user_id)s", &["member"]));
        assert!(!holds("project_id:%(missing)s", &[]), "a missing attribute matched");
        assert!(holds("'open':%(kind)s", &[]) && !holds("'shut':%(kind)s", &[]));
        assert!(!holds("system_scope:all", &[]));
        assert!(holds("is_admin:False", &[]) && !holds("is_admin:True", &[]));
        assert!(!holds("nonsense:x", &[]));
    }

    #[test]
    fn malformed_checks_are_refused() {
        for bad in ["role", "@ or", "and @", "(@", "@)", "@ @", "not", "role:%(x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(matches!(parse("http://server/check"), Err(CheckError::Remote(_))));
    }

    #[test]
    fn the_list_form_is_or_of_ands() {
        let lists = |lists: &[&[&str]]| {
            let owned: Vec<Vec<String>> =
                lists.iter().map(|all| all.iter().map(|s| (*s).to_owned()).collect()).collect();
            parse_lists(&owned).unwrap()
        };
        assert_eq!(lists(&[]), PolicyCheck::Always);
        assert_eq!(lists(&[&["role:a", "rule:b"], &["@"]]), parse("role:a and rule:b or @").unwrap());
    }
}
