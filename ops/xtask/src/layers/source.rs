//! Rust source as tokens with line numbers.
//!
//! A partial parser, sufficient for the rules. It drops comments and the content of texts, and expands `use` trees into
//! paths. It marks code under `#[cfg(test)]`. It cannot tell a local module from a crate of the same name, so this code
//! base avoids such names.

use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    Ident(String),
    /// The digits of a number, as `2` in `v(2, 53)`.
    Number(String),
    /// A text, byte text or character.
    Literal,
    Lifetime,
    Punct(char),
}

#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    pub(crate) line: usize,
}

/// A path in the code, as `std::fs::File`. A `use` tree gives one path per name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodePath {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// Whether the path is part of a `use` declaration. Even a single segment names a crate there.
    pub(crate) import: bool,
    /// The alias of `use ... as ALIAS`.
    pub(crate) alias: Option<String>,
    /// Whether the path is `use ...::*`.
    pub(crate) glob: bool,
    pub(crate) test: bool,
}

/// One file of Rust code.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) tokens: Vec<Placed>,
    /// Token ranges under `#[cfg(test)]`.
    test_ranges: Vec<Range<usize>>,
    paths: Vec<CodePath>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let tokens = tokenize(text);
        let test_ranges =
            if is_test_file(path) { Vec::from([Range { start: 0, end: tokens.len() }]) } else { test_ranges(&tokens) };
        let mut source = Self { path: path.to_owned(), tokens, test_ranges, paths: Vec::new() };
        source.paths = source.collect_paths();
        source
    }

    /// The package folder of the file: `events`, `ops/xtask`, ...
    pub(crate) fn package(&self) -> &str {
        package_of(&self.path)
    }

    /// Whether the file lies below this folder (or is this file).
    pub(crate) fn is_under(&self, place: &str) -> bool {
        self.path == place || self.path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The file's name without its ending: `decide` for `actors/src/instance/decide.rs`.
    pub(crate) fn stem(&self) -> &str {
        self.path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs")).unwrap_or_default()
    }

    pub(crate) fn is_test(&self, token: usize) -> bool {
        self.test_ranges.iter().any(|range| range.contains(&token))
    }

    pub(crate) fn paths(&self) -> &[CodePath] {
        &self.paths
    }

    pub(crate) fn ident(&self, at: usize) -> Option<&str> {
        match &self.tokens.get(at)?.token {
            Token::Ident(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn is_punct(&self, at: usize, punct: char) -> bool {
        self.tokens.get(at).is_some_and(|placed| placed.token == Token::Punct(punct))
    }

    pub(crate) fn is_number(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|placed| matches!(placed.token, Token::Number(_)))
    }

    pub(crate) fn line(&self, at: usize) -> usize {
        self.tokens.get(at).map_or(0, |placed| placed.line)
    }

    /// The index after the bracket that closes the one at `open`.
    pub(crate) fn after_group(&self, open: usize) -> usize {
        after_group(&self.tokens, open)
    }

    fn is_colons(&self, at: usize) -> bool {
        self.is_punct(at, ':') && self.is_punct(at + 1, ':')
    }

    fn collect_paths(&self) -> Vec<CodePath> {
        let mut paths = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            match self.ident(at) {
                Some("use") => at = self.spread(at + 1, &[], &mut paths),
                Some(_) => at = self.plain_path(at, &mut paths),
                None => at += 1,
            }
        }
        paths
    }

    /// Adds the path that begins at `at`, outside of `use`; returns the index after the path. Fields and methods
    /// (`a.b`) begin no path.
    fn plain_path(&self, at: usize, paths: &mut Vec<CodePath>) -> usize {
        let mut segments = Vec::new();
        let mut end = at;
        while let Some(name) = self.ident(end) {
            segments.push(name.to_owned());
            end += 1;
            if !(self.is_colons(end) && self.ident(end + 2).is_some()) {
                break;
            }
            end += 2;
        }
        let member = at > 0 && self.is_punct(at - 1, '.');
        // `pub(in crate::a)` is a visibility and imports nothing.
        let visibility = at > 1 && self.ident(at - 1) == Some("in") && self.is_punct(at - 2, '(');
        if !member && !visibility {
            let (line, test) = (self.line(at), self.is_test(at));
            paths.push(CodePath { segments, line, import: false, alias: None, glob: false, test });
        }
        end
    }

    /// Spreads the `use` tree at `at` into paths; returns the index after it.
    fn spread(&self, mut at: usize, prefix: &[String], paths: &mut Vec<CodePath>) -> usize {
        let mut segments = prefix.to_vec();
        let start = at;
        let (mut alias, mut glob) = (None, false);
        loop {
            if self.is_colons(at) {
                at += 2;
            } else if self.is_punct(at, '{') {
                return self.spread_group(at, &segments, paths);
            } else if self.ident(at) == Some("as") {
                alias = self.ident(at + 1).map(str::to_owned);
                at += 2;
            } else if let Some(name) = self.ident(at) {
                segments.push(name.to_owned());
                at += 1;
            } else if self.is_punct(at, '*') {
                glob = true;
                at += 1;
            } else {
                break;
            }
        }
        if segments.len() > prefix.len() || at > start {
            let (line, test) = (self.line(start), self.is_test(start));
            paths.push(CodePath { segments, line, import: true, alias, glob, test });
        }
        at
    }

    fn spread_group(&self, open: usize, prefix: &[String], paths: &mut Vec<CodePath>) -> usize {
        let end = self.after_group(open);
        let mut at = open + 1;
        while at + 1 < end {
            let next = self.spread(at, prefix, paths);
            // Skips the comma, or any other token of an incomplete tree.
            at = next.max(at) + 1;
        }
        end
    }
}

pub(crate) fn package_of(path: &str) -> &str {
    if path.starts_with("ops/xtask/") { "ops/xtask" } else { path.split('/').next().unwrap_or_default() }
}

/// Files that hold nothing but tests.
fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

fn after_group(tokens: &[Placed], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, placed) in tokens.iter().enumerate().skip(open) {
        match placed.token {
            Token::Punct('(' | '[' | '{') => depth += 1,
            Token::Punct(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The token ranges of the items and statements after `#[cfg(test)]`.
fn test_ranges(tokens: &[Placed]) -> Vec<Range<usize>> {
    let is = |at: usize, wanted: &Token| tokens.get(at).is_some_and(|placed| placed.token == *wanted);
    let ident = |name: &str| Token::Ident(name.to_owned());
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let attribute = is(at, &Token::Punct('#')) && is(at + 1, &Token::Punct('['));
        if !attribute {
            at += 1;
            continue;
        }
        let end = after_group(tokens, at + 1);
        let inside = &tokens[at + 2..end];
        let test_only = is(at + 2, &ident("cfg"))
            && inside.iter().any(|placed| placed.token == ident("test"))
            && !inside.iter().any(|placed| placed.token == ident("not"));
        if test_only {
            let item_end = after_item(tokens, end);
            ranges.push(at..item_end);
            at = item_end;
        } else {
            at = end;
        }
    }
    ranges
}

/// The index after the item that begins at `at`: behind its `;` or its braces.
fn after_item(tokens: &[Placed], mut at: usize) -> usize {
    while let Some(placed) = tokens.get(at) {
        match placed.token {
            Token::Punct(';') => return at + 1,
            Token::Punct('{') => return after_group(tokens, at),
            Token::Punct('(' | '[') => at = after_group(tokens, at),
            _ => at += 1,
        }
    }
    tokens.len()
}

fn tokenize(text: &str) -> Vec<Placed> {
    let mut scanner = Scanner { chars: text.chars().collect(), at: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(placed) = scanner.next_token() {
        tokens.push(placed);
    }
    tokens
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn step(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn next_token(&mut self) -> Option<Placed> {
        self.skip_blanks_and_comments();
        let line = self.line;
        let c = self.peek(0)?;
        let token = if c.is_alphabetic() || c == '_' {
            self.word()
        } else if c.is_ascii_digit() {
            Token::Number(self.take_while(|c| c.is_alphanumeric() || c == '_'))
        } else if c == '"' {
            self.quoted()
        } else if c == '\'' {
            self.quote_or_lifetime()
        } else {
            self.step();
            Token::Punct(c)
        };
        Some(Placed { token, line })
    }

    fn skip_blanks_and_comments(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(c), _) if c.is_whitespace() => {
                    self.step();
                }
                (Some('/'), Some('/')) => {
                    self.take_while(|c| c != '\n');
                }
                (Some('/'), Some('*')) => self.block_comment(),
                _ => return,
            }
        }
    }

    /// Skips a block comment. Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (None, _) => return,
                _ => {
                    self.step();
                    continue;
                }
            }
            self.step();
            self.step();
            if depth == 0 {
                return;
            }
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek(0).filter(|c| wanted(*c)) {
            taken.push(c);
            self.step();
        }
        taken
    }

    /// Reads an identifier, a raw identifier (`r#type`), or a text with a prefix (`r"`, `b"`, `br#"`, `c"`).
    fn word(&mut self) -> Token {
        let word = self.take_while(|c| c.is_alphanumeric() || c == '_');
        let prefix = matches!(word.as_str(), "r" | "b" | "br" | "c" | "cr");
        if !prefix {
            return Token::Ident(word);
        }
        let hashes = self.chars[self.at..].iter().take_while(|c| **c == '#').count();
        match self.peek(hashes) {
            Some('"') if word.contains('r') => {
                self.at += hashes;
                self.raw(hashes)
            }
            Some('"') if hashes == 0 => self.quoted(),
            Some('\'') if hashes == 0 && word == "b" => self.quote_or_lifetime(),
            Some(_) if hashes == 1 && word == "r" => {
                self.step();
                Token::Ident(self.take_while(|c| c.is_alphanumeric() || c == '_'))
            }
            _ => Token::Ident(word),
        }
    }

    fn raw(&mut self, hashes: usize) -> Token {
        self.step();
        while let Some(c) = self.step() {
            if c == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                self.at += hashes;
                break;
            }
        }
        Token::Literal
    }

    fn quoted(&mut self) -> Token {
        self.step();
        while let Some(c) = self.step() {
            match c {
                '\\' => {
                    self.step();
                }
                '"' => break,
                _ => {}
            }
        }
        Token::Literal
    }

    fn quote_or_lifetime(&mut self) -> Token {
        self.step();
        if self.peek(0) == Some('\\') {
            self.step();
            self.step();
            self.take_while(|c| c != '\'');
            self.step();
            return Token::Literal;
        }
        if self.peek(1) == Some('\'') {
            self.step();
            self.step();
            return Token::Literal;
        }
        self.take_while(|c| c.is_alphanumeric() || c == '_');
        Token::Lifetime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        Source::new("events/src/a.rs", text).paths().iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn comments_and_texts_are_no_code() {
        let code = "// tokio::x\n/* a /* tokio */ b */ \"tokio \\\" c\" r#\"tokio \" \"# b'x' '\\'' 'a' fn x<'a>() {}";
        assert_eq!(paths(code), ["fn", "x"]);
    }

    #[test]
    fn use_trees_are_spread() {
        assert_eq!(
            paths("use std::{fs::{self, File}, io as inout, net::*}; use a;"),
            ["std::fs::self", "std::fs::File", "std::io", "std::net", "a"]
        );
    }

    #[test]
    fn members_begin_no_path() {
        assert_eq!(paths("self.virt.open(tokio::spawn)"), ["self", "tokio::spawn"]);
    }

    #[test]
    fn visibilities_import_nothing() {
        assert_eq!(
            paths("pub(in crate::a) fn b() {} for c in d::e {}"),
            ["pub", "in", "fn", "b", "for", "c", "in", "d::e"]
        );
    }

    #[test]
    fn paths_in_test_code_are_marked() {
        let source = Source::new(
            "events/src/a.rs",
            "fn a() {} #[cfg(test)] mod tests { fn b() {} } #[cfg(not(test))] fn c() {} #[cfg(test)] use d; fn e() {}",
        );
        let tests: Vec<&str> =
            source.paths().iter().filter(|path| path.test).map(|path| path.segments[0].as_str()).collect();
        assert_eq!(tests, ["cfg", "test", "mod", "tests", "fn", "b", "cfg", "test", "d"]);
    }

    #[test]
    fn lines_are_counted() {
        let source = Source::new("events/src/a.rs", "a\n\"x\ny\"\nb /*\n*/ c");
        let lines: Vec<usize> = source.paths().iter().map(|path| path.line).collect();
        assert_eq!(lines, [1, 4, 5]);
    }
}
