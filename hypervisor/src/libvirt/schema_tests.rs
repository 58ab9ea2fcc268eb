//! Validates the definitions of guests against the schema of the installed libvirt.

#![allow(clippy::unwrap_used)]
use virt::connect::Connect;

/// A host defines a guest only if the definition fits the schema of its libvirt. libvirt's test driver validates
/// against the same schema. So it shows for each golden definition whether a real host would accept it. The test driver
/// only has domains of type `test`.
#[test]
fn the_schema_of_libvirt_accepts_every_golden_definition() {
    let connect = Connect::open(Some("test:///default")).unwrap();
    let define = |xml: &str| {
        let (opening, rest) = xml.split_once('>').unwrap();
        assert!(opening.starts_with("<domain type='"), "{opening}");
        let xml = format!("<domain type='test'>{rest}");
        connect.define_domain_xml_flags(&xml, virt_sys::VIR_DOMAIN_DEFINE_VALIDATE).map(drop)
    };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let (mut tried, mut wrong) = (0, Vec::new());
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("domain-") {
            continue;
        }
        tried += 1;
        let xml = std::fs::read_to_string(&path).unwrap();
        wrong.extend(define(&xml).err().map(|error| format!("{name}: {error}")));
        // The test driver must refuse an element that the schema does not have. Otherwise it validates nothing.
        let unknown = xml.replace("<on_crash>", "<on_whim/>\n  <on_crash>");
        wrong.extend(define(&unknown).ok().map(|()| format!("{name}: an unknown element is accepted")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(tried >= 31, "{tried} definitions");
}
