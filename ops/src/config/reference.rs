//! Writes the reference page (`docs/configuration.md` and `chronova config reference`) from the table of options.

use std::fmt::Write as _;

use super::option::{Default, OptionDef, OptionType};
use super::options::SECTIONS;
use super::unknown_options;

const INTRODUCTION: &str = "\
# Configuration

<!-- Written by `cargo xtask gen` from the option table in ops/src/config/options; do not edit by hand. -->

Chronova reads `nova.conf`: oslo's INI format, with the sections, names, defaults and meanings that Nova gives its
options. An existing `nova.conf` can be used as it is; options that have no meaning here are noted and skipped.

```
chronova serve --config-file /etc/nova/nova.conf --config-file /etc/chronova/chronova.conf
chronova config check /etc/nova/nova.conf /etc/chronova/chronova.conf
```

* Files are read in order; a later one wins. With none, every option has its default.
* `name = value` or `name: value`; a line that begins with a blank continues the one above; `#` and `;` begin comment
  lines; one pair of quotes around a value is taken off.
* `$name`, `${name}` and `${section.name}` stand for other options' values; `$$` is a dollar sign.
* An option given more than once: the last one counts, except for repeatable options, which collect all.
* `config check` lists every problem at once: errors (start-up would stop), warnings (unknown options, with the nearest
  known name; old names; options of Nova that ask for something that Chronova does not do), notes (options of Nova
  without a meaning here).
* Secrets are never repeated in messages.
";

const WITHOUT_MEANING: &str = "
## Options of Nova without a meaning here

Chronova notes and skips these options. Where a file sets another value than Nova's default and that value asks for
something that Chronova does not do, `config check` and the start warn, with the reason.

| option | reason |
|---|---|
";

/// The whole page, in Markdown.
pub fn render() -> String {
    let mut page = INTRODUCTION.to_owned();
    for options in SECTIONS {
        let Some(first) = options.first() else { continue };
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## [{}]\n\n| option | value | default | meaning |\n|---|---|---|---|\n", first.section);
        for def in *options {
            let _ = writeln!(page, "| `{}` | {} | {} | {} |", def.name, value(def), default(def), meaning(def));
        }
    }
    page.push_str(WITHOUT_MEANING);
    for (section, name, reason) in unknown_options::reasons() {
        let _ = writeln!(page, "| `[{section}] {name}` | {reason} |");
    }
    page
}

fn value(def: &OptionDef) -> String {
    let limits = match def.choices {
        [] => def.limits(),
        choices => format!("one of {}", choices.iter().map(|c| code(c)).collect::<Vec<_>>().join(", ")),
    };
    let kind = if def.choices.is_empty() || def.kind == OptionType::List { def.kind.name() } else { "" };
    [kind, def.unit, &limits].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

fn default(def: &OptionDef) -> String {
    let written = |text: &str| code(&text.replace(',', ", "));
    match (def.default, def.owner_default()) {
        (Default::Text(text), _) => written(text),
        (Default::Owner, Some(text)) => written(&text),
        (Default::Owner, None) if matches!(def.kind, OptionType::List | OptionType::Words | OptionType::Multi) => {
            "empty".to_owned()
        }
        (Default::Owner, None) => "unset".to_owned(),
        (Default::HostName, _) => "the host name".to_owned(),
        (Default::HostAddress, _) => "the host's address".to_owned(),
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { "empty".to_owned() } else { format!("`{text}`") }
}

fn meaning(def: &OptionDef) -> String {
    let mut text = def.help.replace('|', "\\|");
    if !def.deprecated.is_empty() {
        let old: Vec<String> = def.deprecated.iter().map(|(section, name)| format!("`[{section}] {name}`")).collect();
        let _ = write!(text, " Old names: {}.", old.join(", "));
    }
    if def.secret {
        text.push_str(" Secret.");
    }
    let _ = write!(text, " *({})*", def.origin.name());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo xtask gen` runs this with `EXPECTORATE=overwrite`.
    #[test]
    fn generated_configuration_reference_is_current() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md");
        expectorate::assert_contents(page, &render());
    }
}
