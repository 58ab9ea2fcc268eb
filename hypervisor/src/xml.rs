//! Writes XML: a tree of elements that is rendered with correct escaping, so that user input cannot become markup.
//!
//! This file only writes XML. The crate `roxmltree` reads it.

use std::fmt::Write as _;

/// One element with its attributes and either children or text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Element>,
    text: Option<String>,
}

#[expect(clippy::needless_pass_by_value, reason = "`attr(\"n\", 1)` reads better than `attr(\"n\", &1)`")]
impl Element {
    pub fn new(name: &'static str) -> Self {
        Self { name, attributes: Vec::new(), children: Vec::new(), text: None }
    }

    /// An element with text: `<name>text</name>`.
    pub fn leaf(name: &'static str, text: impl ToString) -> Self {
        Self { text: Some(text.to_string()), ..Self::new(name) }
    }

    pub fn attr(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    pub fn attr_if(self, name: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.attr(name, value),
            None => self,
        }
    }

    pub fn child(mut self, child: Element) -> Self {
        self.children.push(child);
        self
    }

    pub fn children(mut self, children: impl IntoIterator<Item = Element>) -> Self {
        self.children.extend(children);
        self
    }

    pub fn render(&self) -> String {
        let mut out = String::with_capacity(1024);
        self.write(&mut out, 0);
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        let _ = write!(out, "{indent}<{}", self.name);
        for (name, value) in &self.attributes {
            let _ = write!(out, " {name}='{}'", escape(value));
        }
        if let Some(text) = &self.text {
            let _ = writeln!(out, ">{}</{}>", escape(text), self.name);
        } else if self.children.is_empty() {
            out.push_str("/>\n");
        } else {
            out.push_str(">\n");
            for child in &self.children {
                child.write(out, depth + 1);
            }
            let _ = writeln!(out, "{indent}</{}>", self.name);
        }
    }
}

/// Escapes text and attributes. A character that XML 1.0 does not allow (control characters, U+FFFE, U+FFFF) becomes
/// U+FFFD. The API accepts such a character in a server's name. If libvirt refused the definition, the build would
/// fail.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&apos;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let hostile = "a</name><evil b='\"&\u{1}\u{0}é\n";
        let xml = Element::new("x").attr("a", hostile).child(Element::leaf("y", hostile)).render();
        let document = roxmltree::Document::parse(&xml).unwrap();
        let expected = "a</name><evil b='\"&\u{fffd}\u{fffd}é\n";
        let root = document.root_element();
        assert_eq!(root.attribute("a"), Some(expected));
        assert_eq!(root.first_element_child().unwrap().text(), Some(expected));
        assert_eq!(root.children().filter(roxmltree::Node::is_element).count(), 1);
    }
}
