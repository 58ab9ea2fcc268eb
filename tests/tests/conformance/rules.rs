//! A second implementation of the contract's policy rules. From the check strings alone, it computes which users the
//! defaults allow.

use std::collections::BTreeMap;

use serde_json::Value;

/// A caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Person {
    pub(crate) name: &'static str,
    /// `USER:PROJECT`; empty for a request without a token.
    pub(crate) token: &'static str,
    pub(crate) roles: &'static str,
}

pub(crate) const PEOPLE: &[Person] = &[
    Person { name: "nobody", token: "", roles: "" },
    Person { name: "other", token: "other:elsewhere", roles: "member,reader" },
    Person { name: "reader", token: "owner:web", roles: "reader" },
    Person { name: "member", token: "owner:web", roles: "member,reader" },
    Person { name: "manager", token: "owner:web", roles: "manager,member,reader" },
    Person { name: "admin", token: "admin:admin", roles: "admin,manager,member,reader" },
    Person { name: "service", token: "nova:services", roles: "service" },
];

pub(crate) struct Rules(BTreeMap<String, String>);

impl Rules {
    pub(crate) fn read(policies: &Value) -> Self {
        let text = |rule: &Value, key: &str| rule[key].as_str().unwrap().to_owned();
        Self(
            policies["rules"]
                .as_array()
                .unwrap()
                .iter()
                .map(|rule| (text(rule, "name"), text(rule, "check")))
                .collect(),
        )
    }

    /// Whether the rule allows `person` to access a resource of `user` and `project`.
    pub(crate) fn allow(&self, rule: &str, person: &Person, (user, project): (&str, &str)) -> bool {
        let check = self.0.get(rule).unwrap_or_else(|| panic!("no rule {rule}"));
        self.any(check, person, (user, project))
    }

    fn any(&self, check: &str, person: &Person, target: (&str, &str)) -> bool {
        split(check, " or ")
            .into_iter()
            .any(|part| split(part, " and ").into_iter().all(|one| self.one(one, person, target)))
    }

    fn one(&self, check: &str, person: &Person, target: (&str, &str)) -> bool {
        let check = check.trim();
        if let Some(inner) = check.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            return self.any(inner, person, target);
        }
        if let Some(rest) = check.strip_prefix("not ") {
            return !self.one(rest, person, target);
        }
        let (user, project) = person.token.split_once(':').unwrap_or_default();
        match check.split_once(':') {
            None => match check {
                "@" | "" => true,
                "!" => false,
                other => panic!("{other}"),
            },
            Some(("rule", name)) => self.allow(name, person, target),
            Some(("role", role)) => person.roles.split(',').any(|held| held == role),
            Some(("is_admin", _)) => person.roles.split(',').any(|held| held == "admin"),
            Some(("project_id", "%(project_id)s")) => project == target.1,
            Some(("user_id", "%(user_id)s")) => user == target.0,
            Some(other) => panic!("{other:?}"),
        }
    }
}

/// Splits `check` at `at`, outside parentheses.
fn split<'a>(check: &'a str, at: &str) -> Vec<&'a str> {
    let (mut parts, mut depth, mut from, mut index) = (Vec::new(), 0, 0, 0);
    while let Some(rest) = check.get(index..).filter(|rest| !rest.is_empty()) {
        match rest.as_bytes()[0] {
            b'(' if !rest.starts_with("(project_id)") && !rest.starts_with("(user_id)") => depth += 1,
            b')' if !check[..index].ends_with("(project_id") && !check[..index].ends_with("(user_id") => depth -= 1,
            _ if depth == 0 && rest.starts_with(at) => {
                parts.push(&check[from..index]);
                from = index + at.len();
                index = from;
                continue;
            }
            _ => {}
        }
        index += 1;
    }
    parts.push(&check[from..]);
    parts
}
