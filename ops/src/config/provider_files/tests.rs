#![allow(clippy::unwrap_used)]
use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn read_all(files: &[(&str, &str)]) -> Result<ProviderFiles, String> {
    read(folder(files).path())
}

const EXAMPLE: &str = "\
meta:
  schema_version: '1.0'
providers:
  - identification:
      name: node7
    inventories:
      additional:
        - CUSTOM_LICENCE:
            total: 22
            reserved: 2
            min_unit: 1
            max_unit: 10
            step_size: 1
            allocation_ratio: 1.5
        - CUSTOM_SLOT:
            total: 3
    traits:
      additional:
        - CUSTOM_FAST
        - CUSTOM_QUIET
  - identification:
      uuid: $COMPUTE_NODE
    traits:
      additional: [CUSTOM_PLAIN]
";

#[test]
fn a_file_of_provider_configs_is_read_as_nova_documents_it() {
    let found = read_all(&[("a.yaml", EXAMPLE), ("b.yml", "nonsense"), (".c.yaml", "nonsense")]).unwrap();
    assert_eq!(found.remarks, Vec::<String>::new());
    let [node, all] = found.configs.entries.as_slice() else { panic!("{found:?}") };
    assert_eq!(node.identification, ProviderIdentification::Name("node7".into()));
    assert!(node.source.ends_with("a.yaml providers[0]"), "{}", node.source);
    let [licence, slot] = node.inventories.as_slice() else { panic!("{node:?}") };
    let expected = Inventory {
        class: "CUSTOM_LICENCE".into(),
        total: 22,
        reserved: 2,
        min_unit: 1,
        max_unit: 10,
        step_size: 1,
        allocation_ratio: 1.5,
    };
    assert_eq!(*licence, expected);
    let defaults = Inventory {
        class: "CUSTOM_SLOT".into(),
        total: 3,
        reserved: 0,
        min_unit: 1,
        max_unit: INT_MAX,
        step_size: 1,
        allocation_ratio: 1.0,
    };
    assert_eq!(*slot, defaults, "omitted values must be Placement's defaults");
    assert_eq!(node.traits, BTreeSet::from(["CUSTOM_FAST".into(), "CUSTOM_QUIET".into()]));
    assert_eq!(all.identification, ProviderIdentification::ComputeNode);
    assert_eq!(read(Path::new("/nonexistent/provider_config")).unwrap(), ProviderFiles::default());
}

/// A file whose only entry has this body.
fn entry(body: &str) -> String {
    format!("meta: {{schema_version: '1.0'}}\nproviders:\n  - {body}\n")
}

#[test]
fn a_wrong_file_of_provider_configs_is_refused_with_file_entry_and_remedy() {
    let named = "identification: {name: n}";
    let item = |text: &str| entry(&format!("{{{named}, inventories: {{additional: [{text}]}}}}"));
    let cases: &[(&str, &str)] = &[
        ("{", "is not usable YAML"),
        ("", "is empty"),
        ("providers: []", "missing field `meta`"),
        ("meta: {}", "schema_version is missing"),
        ("meta: {schema_version: 1.0}", "write '1.0' in quotation marks"),
        ("meta: {schema_version: '2.0'}", "schema_version 2.0 is not supported"),
        ("meta: {schema_version: '1.01'}", "schema_version 1.01 is not supported"),
        ("meta: {schema_version: '1.0'}\n__source_file: x", "__source_file is reserved"),
        ("meta: {schema_version: '1.0', author: me}", "meta has the key author"),
        ("meta: {schema_version: '1.0'}\nprovider: []", "the file has the key provider"),
        (&entry("{traits: {additional: [CUSTOM_A]}}"), "providers[0]: missing field `identification`"),
        (&entry("{identification: {}}"), "needs exactly one of uuid and name"),
        (&entry("{identification: {name: a, uuid: b}}"), "needs exactly one of uuid and name"),
        (&entry("{identification: {serial: a}}"), "serial is not supported: use uuid or name"),
        (&entry("{identification: {name: ''}}"), "name must have 1 to 200 characters"),
        (&entry("{identification: {uuid: node7}}"), "node7 is neither a UUID nor $COMPUTE_NODE"),
        (&entry("{identification: {uuid: c60c923990234af5a1d1b0a4b8d7f2e1}}"), "is neither a UUID nor"),
        (&entry(&format!("{{{named}, trait: {{}}}}")), "the entry has the key trait"),
        (&entry(&format!("{{{named}, traits: {{required: []}}}}")), "traits has the key required"),
        (&entry(&format!("{{{named}, inventories: {{reserved: []}}}}")), "inventories has the key reserved"),
        (
            &entry(&format!("{{{named}, traits: {{additional: [HW_CPU_X86_AVX]}}}}")),
            "HW_CPU_X86_AVX is not a custom trait",
        ),
        (&entry(&format!("{{{named}, traits: {{additional: [CUSTOM_a]}}}}")), "CUSTOM_a is not a custom trait"),
        // 256 characters, which is one too many.
        (
            &entry(&format!("{{{named}, traits: {{additional: [CUSTOM_{}]}}}}", "A".repeat(249))),
            "AAA is not a custom trait",
        ),
        (&item("{VCPU: {total: 1}}"), "VCPU: is not a custom resource class"),
        (&item("{CUSTOM_A: {reserved: 1}}"), "CUSTOM_A: missing field `total`"),
        (&item("{CUSTOM_A: {total: 1, size: 1}}"), "unknown field `size`"),
        (&item("{CUSTOM_A: {total: '1'}}"), "expected u64"),
        (&item("{CUSTOM_A: {total: 0}}"), "total is 0, and must be between 1 and 2147483647"),
        (&item("{CUSTOM_A: {total: 1, reserved: 2}}"), "reserved is 2, and must not exceed total"),
        (&item("{CUSTOM_A: {total: 1, allocation_ratio: 0}}"), "allocation_ratio is 0, and must be above 0"),
        (&item("{CUSTOM_A: {total: 1}}, {CUSTOM_A: {total: 2}}"), "CUSTOM_A is there twice"),
    ];
    for (text, expected) in cases {
        let refused = read_all(&[("wrong.yaml", text)]).unwrap_err();
        assert!(refused.contains(*expected) && refused.contains("wrong.yaml"), "{text}: {refused}");
    }
}

#[test]
fn a_provider_is_named_once_in_all_files() {
    let one = |identification: &str| {
        entry(&format!("{{identification: {identification}, traits: {{additional: [CUSTOM_A]}}}}"))
    };
    let empty = |identification: &str| entry(&format!("{{identification: {identification}}}"));
    for name in ["{name: node7}", "{uuid: c60c9239-9023-4af5-a1d1-b0a4b8d7f2e1}", "{uuid: $COMPUTE_NODE}"] {
        let refused = read_all(&[("a.yaml", &one(name)), ("b.yaml", &one(name))]).unwrap_err();
        assert!(
            refused.contains("a.yaml providers[0] and in ") && refused.contains("b.yaml providers[0]"),
            "{refused}"
        );
    }
    assert!(read_all(&[("a.yaml", &one("{name: node7}")), ("b.yaml", &one("{name: node8}"))]).is_ok());
    let found = read_all(&[("a.yaml", &one("{name: node7}")), ("b.yaml", &empty("{name: node7}"))]).unwrap();
    let [remark] = found.remarks.as_slice() else { panic!("{found:?}") };
    assert!(
        remark.ends_with("b.yaml providers[0] (node7) adds no inventories and no traits: it is ignored"),
        "{remark}"
    );
    assert_eq!(found.configs.entries.len(), 1);
    // An entry without additions is ignored, so the entry of $COMPUTE_NODE still applies to that provider.
    let found = read_all(&[("a.yaml", &one("{uuid: $COMPUTE_NODE}")), ("b.yaml", &empty("{name: node7}"))]).unwrap();
    let [all] = found.configs.entries.as_slice() else { panic!("{found:?}") };
    assert_eq!(all.identification, ProviderIdentification::ComputeNode);
}

#[test]
fn a_later_minor_version_is_read_and_its_unknown_keys_are_named() {
    let text = EXAMPLE.replace("'1.0'", "'1.12'").replace("    traits:\n", "    colour: red\n    traits:\n");
    let found = read_all(&[("a.yaml", &text)]).unwrap();
    assert_eq!(found.configs.entries.len(), 2);
    let [remark] = found.remarks.as_slice() else { panic!("{found:?}") };
    assert!(remark.contains("schema version 1.12") && remark.ends_with("it passes over colour"), "{remark}");
}

#[test]
fn files_of_provider_configs_are_bounded() {
    let long = format!("{EXAMPLE}# {}", "x".repeat(1 << 20));
    assert!(read_all(&[("a.yaml", &long)]).unwrap_err().contains("is longer than 1048576 bytes"));
    let deep = format!("meta: {}", "[".repeat(100));
    assert!(read_all(&[("a.yaml", &deep)]).unwrap_err().contains("is not usable YAML"));
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..9 {
        let names = vec![format!("*a{}", n - 1); 10].join(", ");
        laughs.push_str(&["a", &n.to_string(), ": &a", &n.to_string(), " [", &names, "]\n"].concat());
    }
    // Without the bound, the aliases would expand to a thousand million words.
    assert!(read_all(&[("a.yaml", &laughs)]).unwrap_err().contains("is not usable YAML"));
}
