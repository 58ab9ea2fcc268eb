//! The parts of libvirt's descriptions of a host's devices that the readers of PCI devices and of mediated devices look
//! for.

use roxmltree::Node;

pub(super) fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}

/// The text of a child, without spaces around it.
pub(super) fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(node, name)?.text().map(str::trim)
}

/// The capability of this type, of a device or of another capability.
pub(super) fn capability<'a, 'i>(node: Node<'a, 'i>, kind: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|part| part.has_tag_name("capability") && part.attribute("type") == Some(kind))
}
