//! The account with which a host's libvirt starts its guests' emulators.

use roxmltree::{Document, Node};

/// The account as `+UID:+GID`, from a host's capabilities. `None`: the host's libvirt does not tell it.
pub(super) fn of_emulators(document: &Document<'_>) -> Option<String> {
    let host = document.root_element().children().find(|node| node.has_tag_name("host"))?;
    let mut models = host.children().filter(|node| node.has_tag_name("secmodel"));
    let model = models.find(|model| text(*model, "model") == Some("dac"))?;
    text(model, "baselabel").map(str::to_owned)
}

/// The text of a child; `None` if it is missing or empty.
fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let child = node.children().find(|child| child.has_tag_name(name))?;
    child.text().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_account_of_emulators_is_that_of_the_dac_model() {
        let of = |inner: &str| {
            let xml = format!("<capabilities><host><cpu/>{inner}</host><guest/></capabilities>");
            of_emulators(&Document::parse(&xml).unwrap())
        };
        let apparmor = "<secmodel><model>apparmor</model><doi>0</doi></secmodel>";
        let dac = "<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+64055:+994</baselabel>\
                   <baselabel type='qemu'>+64055:+994</baselabel></secmodel>";
        assert_eq!(of(&format!("{apparmor}{dac}")).as_deref(), Some("+64055:+994"));
        assert_eq!(of(apparmor), None);
        assert_eq!(of("<secmodel><model>dac</model></secmodel>"), None);
    }
}
