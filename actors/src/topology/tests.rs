#![allow(clippy::unwrap_used)]
use std::collections::BTreeSet;

use chronova_events::ids::{FlavorId, ImageId};
use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};
use chronova_events::ledger::{FittedNumaCell, HostNumaCell, HostPages};
use chronova_hypervisor::pinning::NumaCell;

use super::fit::{FitLimits, fit};
use super::host::{CpuSets, HostCpus, HostNumaCells, ReservedHugePages};
use super::usage::cells;
use super::*;

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn flavor(vcpus: u32, memory_mib: u64, specs: &[(&str, &str)]) -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("1"),
        name: "f".into(),
        vcpus,
        memory_mib,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: pairs(specs),
    }
}

fn image(properties: &[(&str, &str)]) -> ImageSnapshot {
    ImageSnapshot {
        id: ImageId(uuid::Uuid::nil()),
        name: "i".into(),
        checksum: String::new(),
        format: "raw".into(),
        size: 1,
        virtual_size: 1,
        min_memory_mib: 0,
        min_disk_gib: 0,
        properties: pairs(properties),
    }
}

fn asked(specs: &[(&str, &str)], properties: &[(&str, &str)]) -> Result<Option<GuestNumaTopology>, String> {
    ask(&flavor(4, 1024, specs), Some(&image(properties)))
}

/// The nodes as text, such as `0-1 / 512 | +2-3 / 512`: floating CPUs, dedicated CPUs after a plus, memory in MiB.
fn words(topology: &GuestNumaTopology) -> String {
    let node = |node: &GuestNumaNode| {
        let list = |cpus: &BTreeSet<u32>| chronova_hypervisor::cpus::format(cpus.iter().copied());
        let dedicated = if node.dedicated.is_empty() { String::new() } else { format!("+{}", list(&node.dedicated)) };
        format!("{}{dedicated} / {}", list(&node.floating), node.memory_mib)
    };
    topology.nodes.iter().map(node).collect::<Vec<_>>().join(" | ")
}

#[test]
fn the_request_becomes_nodes() {
    let of = |specs: &[(&str, &str)], properties: &[(&str, &str)]| {
        asked(specs, properties).unwrap().map(|topology| words(&topology))
    };
    assert_eq!(of(&[], &[]), None, "no property requests a topology");
    assert_eq!(of(&[("hw:cpu_policy", "shared")], &[]), None);
    assert_eq!(of(&[("hw:numa_nodes", "2")], &[]).unwrap(), "0-1 / 512 | 2-3 / 512");
    assert_eq!(of(&[], &[("hw_numa_nodes", "1")]).unwrap(), "0-3 / 1024");
    // Each of these properties alone implies a topology.
    for size in ["small", "large", "any", "2048"] {
        assert_eq!(of(&[("hw:mem_page_size", size)], &[]).unwrap(), "0-3 / 1024", "{size}");
    }
    assert_eq!(of(&[("hw:mem_page_size", "any")], &[("hw_mem_page_size", "small")]).unwrap(), "0-3 / 1024");
    assert_eq!(of(&[("hw:cpu_policy", "dedicated")], &[]).unwrap(), "+0-3 / 1024");
    assert_eq!(of(&[("resources:PCPU", "4")], &[]).unwrap(), "+0-3 / 1024");
    assert_eq!(of(&[], &[("hw_cpu_policy", "dedicated")]).unwrap(), "+0-3 / 1024");
    let mixed = [("hw:cpu_policy", "mixed"), ("hw:cpu_dedicated_mask", "^0-1")];
    assert_eq!(of(&mixed, &[]).unwrap(), "0-1+2-3 / 1024");
    let asymmetric = [
        ("hw:numa_nodes", "2"),
        ("hw:numa_cpus.0", "0"),
        ("hw:numa_cpus.1", "1-3"),
        ("hw:numa_mem.0", "256"),
        ("hw:numa_mem.1", "768"),
    ];
    assert_eq!(of(&asymmetric, &[]).unwrap(), "0 / 256 | 1-3 / 768");
}

/// The example of Nova's documentation: a small and a large node, by flavor or by image.
#[test]
fn nodes_of_unequal_size_are_those_of_flavor_or_image() {
    let of = |prefix: &str, in_image: bool| {
        let named: Vec<(String, &str)> = [
            ("numa_nodes", "2"),
            ("numa_cpus.0", "0,1"),
            ("numa_cpus.1", "2,3,4,5"),
            ("numa_mem.0", "2048"),
            ("numa_mem.1", "4096"),
        ]
        .map(|(name, value)| (format!("{prefix}{name}"), value))
        .to_vec();
        let wanted: Vec<(&str, &str)> = named.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let (specs, properties) = if in_image { (&[][..], &wanted[..]) } else { (&wanted[..], &[][..]) };
        let topology = ask(&flavor(6, 6144, specs), Some(&image(properties))).unwrap();
        topology.map(|topology| words(&topology))
    };
    for (prefix, in_image) in [("hw:", false), ("hw_", true)] {
        assert_eq!(of(prefix, in_image).as_deref(), Some("0-1 / 2048 | 2-5 / 4096"), "{prefix}");
    }
    assert_eq!(of("hw_", false), None, "a flavor's extra specs have a colon");
}

/// Flavor and image may both set a property. As in Nova, the precedence depends on the property.
#[test]
fn flavor_and_image_have_nova_s_precedence() {
    let policy = |flavor: &[(&str, &str)], image: &[(&str, &str)]| {
        asked(flavor, image).map(|topology| topology.map_or(CpuPolicy::Shared, |topology| topology.policy))
    };
    let (shared, dedicated) = (("hw:cpu_policy", "shared"), ("hw:cpu_policy", "dedicated"));
    assert_eq!(policy(&[dedicated], &[("hw_cpu_policy", "shared")]), Ok(CpuPolicy::Dedicated));
    assert!(policy(&[shared], &[("hw_cpu_policy", "dedicated")]).unwrap_err().contains("override CPU pinning policy"));
    assert_eq!(policy(&[shared], &[("hw_cpu_policy", "shared")]), Ok(CpuPolicy::Shared));
    let threads = |flavor: &str, image: &str| {
        asked(&[dedicated, ("hw:cpu_thread_policy", flavor)], &[("hw_cpu_thread_policy", image)])
            .map(|topology| topology.unwrap().threads)
    };
    assert_eq!(threads("isolate", "isolate"), Ok(Some(CpuThreadPolicy::Isolate)));
    for (flavor, image) in [("isolate", "require"), ("isolate", "prefer"), ("require", "prefer")] {
        assert!(threads(flavor, image).unwrap_err().contains("override CPU thread pinning policy"), "{flavor} {image}");
    }
    assert_eq!(threads("prefer", "require"), Ok(Some(CpuThreadPolicy::Prefer)), "as in Nova's code");
    let of_image = asked(&[dedicated], &[("hw_cpu_thread_policy", "isolate")]).unwrap().unwrap();
    assert_eq!(of_image.threads, Some(CpuThreadPolicy::Isolate), "the flavor has no thread policy");
    let pages = |flavor: &str, image: Option<&str>| {
        let image: Vec<_> = image.map(|size| ("hw_mem_page_size", size)).into_iter().collect();
        asked(&[("hw:mem_page_size", flavor)], &image).map(|topology| topology.unwrap().pages.unwrap())
    };
    assert_eq!(pages("large", Some("2MB")), Ok(MemPageSize::Kib(2048)));
    assert_eq!(pages("any", Some("small")), Ok(MemPageSize::Small));
    assert!(pages("2048", Some("2048")).is_err() && pages("small", Some("any")).is_err());
    assert_eq!(pages("large", None), Ok(MemPageSize::Large));
    assert!(asked(&[], &[("hw_mem_page_size", "large")]).is_err(), "the flavor must allow the image's page size");
    assert!(asked(&[("hw:numa_nodes", "2")], &[("hw_numa_nodes", "2")]).is_err());
}

#[test]
fn page_sizes_have_units() {
    let kib = |size: &str| asked(&[("hw:mem_page_size", size)], &[]).map(|topology| topology.unwrap().pages);
    for (text, size) in [
        ("2048", 2048),
        ("2MB", 2048),
        ("2MiB", 2048),
        ("1GB", 1 << 20),
        ("4KB", 4),
        ("4KiB", 4),
        ("1GiB", 1 << 20),
        ("1TB", 1 << 30),
        ("1TiB", 1 << 30),
        // These are bits.
        ("16Kb", 2),
        ("16Kbit", 2),
        ("16Kib", 2),
        ("16Kibit", 2),
        ("16Mb", 2048),
        ("16Mbit", 2048),
        ("16Mib", 2048),
        ("16Mibit", 2048),
        ("8Gb", 1 << 20),
        ("8Gbit", 1 << 20),
        ("8Gib", 1 << 20),
        ("8Gibit", 1 << 20),
        ("8Tb", 1 << 30),
        ("8Tbit", 1 << 30),
        ("8Tib", 1 << 30),
        ("8Tibit", 1 << 30),
    ] {
        assert_eq!(kib(text), Ok(Some(MemPageSize::Kib(size))), "{text}");
    }
    for wrong in ["huge", "2XB", "MB", "2M", "0"] {
        assert!(kib(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_impossible_topology_is_refused_with_the_reason() {
    let refused = |specs: &[(&str, &str)], word: &str| {
        let message = asked(specs, &[]).unwrap_err();
        assert!(message.contains(word), "{specs:?}: {message}");
    };
    refused(&[("hw:cpu_policy", "shares")], "must be one of");
    refused(&[("hw:cpu_thread_policy", "require")], "non dedicated");
    refused(&[("hw:emulator_threads_policy", "isolate")], "requires a dedicated CPU policy");
    refused(&[("hw:cpu_policy", "mixed")], "hw:cpu_dedicated_mask");
    refused(&[("hw:cpu_policy", "mixed"), ("hw:cpu_dedicated_mask", "0-3")], "at least 1");
    refused(&[("hw:cpu_policy", "mixed"), ("hw:cpu_dedicated_mask", "0-9")], "not a subset");
    refused(&[("hw:cpu_policy", "dedicated"), ("hw:cpu_dedicated_mask", "0")], "only when");
    refused(&[("hw:cpu_policy", "dedicated"), ("resources:PCPU", "4")], "one or the other");
    refused(&[("resources:PCPU", "3")], "exactly flavor.vcpus PCPUs");
    refused(&[("hw:numa_nodes", "3")], "evenly");
    refused(&[("hw:numa_nodes", "0")], "greater than 0");
    refused(&[("hw:numa_nodes", "2"), ("hw:numa_cpus.0", "0")], "for all NUMA nodes");
    refused(&[("hw:cpu_realtime", "yes")], "non dedicated");
    let dedicated = [("hw:cpu_policy", "dedicated"), ("hw:cpu_realtime", "yes")];
    let with = |more: (&'static str, &'static str)| [dedicated[0], dedicated[1], more];
    refused(&dedicated, "at least 1 RT vCPU");
    refused(&with(("hw:cpu_realtime_mask", "0-3")), "at least 1 RT vCPU");
    refused(&with(("hw:cpu_realtime_mask", "2-9")), "not a subset");
    refused(&with(("hw:cpu_realtime_mask", "^0-3")), "at least 1 RT vCPU");
    refused(
        &[("hw:cpu_policy", "mixed"), ("hw:cpu_dedicated_mask", "2"), dedicated[1], ("hw:cpu_realtime_mask", "2-3")],
        "must have those of",
    );
    let manual = |cpus: [&str; 2], memory: [&str; 2]| {
        let specs = [
            ("hw:numa_nodes", "2"),
            ("hw:numa_cpus.0", cpus[0]),
            ("hw:numa_cpus.1", cpus[1]),
            ("hw:numa_mem.0", memory[0]),
            ("hw:numa_mem.1", memory[1]),
        ];
        asked(&specs, &[]).unwrap_err()
    };
    assert!(manual(["0-1", "2-9"], ["512", "512"]).contains("larger than max 3"));
    assert!(manual(["0-1", "1-3"], ["512", "512"]).contains("two nodes"));
    assert!(manual(["0-1", "2"], ["512", "512"]).contains("not assigned to any"));
    assert!(manual(["0-1", "2-3"], ["512", "1024"]).contains("1536 MB of memory assigned, but expected 1024"));
    // 2^54, and a number that together with it makes 2^64 + 1024.
    let wrapped = manual(["0-1", "2-3"], ["18014398509481984", "18428729675200070656"]);
    assert!(wrapped.contains("but expected 1024"), "{wrapped}");
}

/// A real-time guest needs a mask in the flavor or in the image, or a processor for the emulator. Each of these keeps
/// the overhead away from real-time CPUs.
#[test]
fn some_cpus_run_in_real_time() {
    let cpus = |specs: &[(&str, &str)], image: &[(&str, &str)]| {
        let topology = asked(specs, image).unwrap().unwrap();
        let dedicated: BTreeSet<u32> = topology.nodes.iter().flat_map(|node| node.dedicated.iter().copied()).collect();
        (topology.realtime.into_iter().collect::<Vec<_>>(), dedicated.into_iter().collect::<Vec<_>>())
    };
    let (on, pinned) = (("hw:cpu_realtime", "yes"), ("hw:cpu_policy", "dedicated"));
    let all = vec![0, 1, 2, 3];
    assert_eq!(cpus(&[on, pinned, ("hw:cpu_realtime_mask", "2-3")], &[]), (vec![2, 3], all.clone()));
    assert_eq!(cpus(&[on, pinned, ("hw:cpu_realtime_mask", "^0-1")], &[]), (vec![2, 3], all.clone()));
    assert_eq!(
        cpus(&[on, pinned], &[("hw_cpu_realtime_mask", "^0")]),
        (vec![1, 2, 3], all.clone()),
        "the image's mask"
    );
    assert_eq!(cpus(&[on, pinned, ("hw:emulator_threads_policy", "isolate")], &[]), (all.clone(), all));
    let mixed = [on, ("hw:cpu_policy", "mixed"), ("hw:cpu_realtime_mask", "2-3")];
    assert_eq!(cpus(&mixed, &[]), (vec![2, 3], vec![2, 3]), "the others float");
    assert_eq!(asked(&[("hw:cpu_realtime", "no")], &[]), Ok(None));
}

// ------------------------------------------------------------------------------------------------------------- fitting

/// Cells of `size` processors each. The first `shared` are shared, the others are dedicated. A core has `threads`
/// processors. If it has two, the processors 0 and 1 are the first core.
fn host(count: u32, size: u32, shared: u32, threads: usize) -> Vec<HostNumaCell> {
    let cell = |id: u32| {
        let cpus: Vec<u32> = (id * size..(id + 1) * size).collect();
        let siblings = cpus.chunks(threads).filter(|core| core.len() > 1).map(<[u32]>::to_vec).collect();
        NumaCell { id, siblings, cpus, memory_mib: 4096, pages: vec![(4, 1_048_576), (2048, 64)] }
    };
    let found: Vec<NumaCell> = (0..count).map(cell).collect();
    let (mut kept, mut own) = (BTreeSet::new(), BTreeSet::new());
    for cell in &found {
        kept.extend(cell.cpus.iter().take(shared as usize));
        own.extend(cell.cpus.iter().skip(shared as usize));
    }
    let sets = CpuSets { shared: Some(kept), dedicated: Some(own) };
    HostNumaCells::of(&found, &sets).unwrap().cells
}

fn wanted(vcpus: u32, specs: &[(&str, &str)]) -> GuestNumaTopology {
    ask(&flavor(vcpus, 1024, specs), None).unwrap().unwrap()
}

fn on(
    host: &[HostNumaCell],
    guests: &[Vec<FittedNumaCell>],
    topology: &GuestNumaTopology,
) -> Result<Vec<FittedNumaCell>, String> {
    fit(topology, cells(host, guests.iter().map(Vec::as_slice)), FitLimits::default())
}

/// The cell of each node, and the processors of its dedicated CPUs in order.
fn pins(fitted: &[FittedNumaCell]) -> Vec<(u32, Vec<u32>)> {
    fitted.iter().map(|node| (node.cell, node.pinned.iter().map(|(_, cpu)| *cpu).collect())).collect()
}

const DEDICATED: (&str, &str) = ("hw:cpu_policy", "dedicated");

#[test]
fn no_processor_is_given_twice() {
    let host = host(1, 4, 0, 1);
    let two = wanted(2, &[DEDICATED]);
    let first = on(&host, &[], &two).unwrap();
    assert_eq!(pins(&first), [(0, vec![0, 1])]);
    let second = on(&host, std::slice::from_ref(&first), &two).unwrap();
    assert_eq!(pins(&second), [(0, vec![2, 3])]);
    let refused = on(&host, &[first, second], &two).unwrap_err();
    assert_eq!(refused, "cell 0: dedicated CPUs: wants 2, free 0 of 4");
}

#[test]
fn thread_policies_prefer_require_and_isolate() {
    let threaded = host(1, 6, 0, 2);
    let by = |policy: &str| wanted(2, &[DEDICATED, ("hw:cpu_thread_policy", policy)]);
    assert_eq!(pins(&on(&threaded, &[], &by("prefer")).unwrap()), [(0, vec![0, 1])]);
    let one = on(&threaded, &[], &wanted(1, &[DEDICATED])).unwrap();
    assert_eq!(pins(&on(&threaded, std::slice::from_ref(&one), &by("require")).unwrap()), [(0, vec![2, 3])]);
    let three = wanted(3, &[DEDICATED, ("hw:cpu_thread_policy", "prefer")]);
    let rest = on(&threaded, std::slice::from_ref(&one), &three).unwrap();
    assert_eq!(pins(&rest), [(0, vec![2, 3, 4])]);
    assert!(on(&threaded, &[one.clone(), rest.clone()], &by("require")).is_err(), "no two threads of a core are free");
    assert_eq!(
        pins(&on(&threaded, &[one.clone(), rest.clone()], &by("prefer")).unwrap()),
        [(0, vec![1, 5])],
        "`prefer` takes the free threads of two cores"
    );
    let without_policy = on(&threaded, &[one, rest], &wanted(2, &[DEDICATED])).unwrap();
    assert_eq!(pins(&without_policy), [(0, vec![1, 5])], "`prefer` is the default");
    assert!(on(&threaded, &[], &by("isolate")).is_err(), "its cores have threads");
    let plain = host(1, 6, 0, 1);
    assert_eq!(pins(&on(&plain, &[], &by("isolate")).unwrap()), [(0, vec![0, 1])]);
    assert_eq!(pins(&on(&plain, &[], &by("prefer")).unwrap()), [(0, vec![0, 1])]);
    assert!(on(&plain, &[], &by("require")).is_err(), "its cores have no threads");
}

/// The trait and `resources:PCPU` have the same effect as the thread policy and the CPU policy.
#[test]
fn a_trait_implies_the_thread_policy() {
    let by = |state: &'static str| [("resources:PCPU", "2"), ("trait:HW_CPU_HYPERTHREADING", state)];
    let threads = |specs: &[(&str, &str)]| ask(&flavor(2, 512, specs), None).map(|found| found.unwrap().threads);
    assert_eq!(threads(&by("required")), Ok(Some(CpuThreadPolicy::Require)));
    assert_eq!(threads(&by("forbidden")), Ok(Some(CpuThreadPolicy::Isolate)));
    let [pcpus, required] = by("required");
    let refused = threads(&[pcpus, required, ("hw:cpu_thread_policy", "require")]).unwrap_err();
    assert!(refused.contains("use one or the other"), "{refused}");
    let threaded = host(1, 6, 0, 2);
    let one = on(&threaded, &[], &wanted(1, &[DEDICATED])).unwrap();
    assert_eq!(pins(&on(&threaded, &[one], &wanted(2, &by("required"))).unwrap()), [(0, vec![2, 3])]);
}

#[test]
fn the_emulator_may_have_a_processor_of_its_own() {
    let host = host(1, 4, 0, 1);
    let isolated = |cpus| wanted(cpus, &[DEDICATED, ("hw:emulator_threads_policy", "isolate")]);
    let fitted = on(&host, &[], &isolated(2)).unwrap();
    assert_eq!((pins(&fitted), &fitted[0].emulator), (vec![(0, vec![0, 1])], &vec![2]));
    assert!(on(&host, &[], &isolated(4)).is_err(), "no processor is left for the emulator");
    assert!(on(&host, &[fitted], &isolated(1)).is_err());
}

/// Each of the last three nodes fits on the same two cells. Without its bound the search would try all places of the
/// twelve nodes before them.
#[test]
fn a_search_for_the_cells_of_many_nodes_ends() {
    let host = host(16, 4, 0, 1);
    let of_sizes = |sizes: &[u32]| {
        let count = sizes.len().to_string();
        let mut specs = vec![("hw:cpu_policy".to_owned(), "dedicated".to_owned()), ("hw:numa_nodes".to_owned(), count)];
        let mut next = 0;
        for (node, size) in sizes.iter().enumerate() {
            specs.push((format!("hw:numa_cpus.{node}"), chronova_hypervisor::cpus::format(next..next + *size)));
            specs.push((format!("hw:numa_mem.{node}"), "64".to_owned()));
            next += *size;
        }
        let specs: Vec<(&str, &str)> = specs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        ask(&flavor(next, 64 * sizes.len() as u64, &specs), None).unwrap().unwrap()
    };
    let first = on(&host, &[], &of_sizes(&[3; 14])).unwrap();
    let sizes = [vec![1; 12], vec![4; 3]].concat();
    let refused = on(&host, std::slice::from_ref(&first), &of_sizes(&sizes)).unwrap_err();
    assert_eq!(refused, "the host has no 15 NUMA cells that together have room for the guest's nodes");
    let two = [vec![1; 12], vec![4; 2]].concat();
    assert_eq!(on(&host, &[first], &of_sizes(&two)).unwrap().len(), 14);
}

#[test]
fn each_node_needs_a_cell_that_has_all_it_needs() {
    let host = host(2, 4, 2, 1);
    // There are four dedicated CPUs, in two cells.
    assert!(on(&host, &[], &wanted(4, &[DEDICATED])).unwrap_err().contains("cell 1"), "a node gets CPUs of one cell");
    let split = on(&host, &[], &wanted(4, &[DEDICATED, ("hw:numa_nodes", "2")])).unwrap();
    assert_eq!(pins(&split), [(0, vec![2, 3]), (1, vec![6, 7])]);
    let three = ask(&flavor(3, 768, &[("hw:numa_nodes", "3")]), None).unwrap().unwrap();
    assert_eq!(on(&host, &[], &three).unwrap_err(), "the guest wants 3 NUMA nodes, the host has 2");
    let floats = wanted(4, &[("hw:numa_nodes", "2")]);
    let fitted = on(&host, &[], &floats).unwrap();
    assert_eq!(fitted.iter().map(|node| node.floating.clone()).collect::<Vec<_>>(), [vec![0, 1], vec![2, 3]]);
    assert!(on(&host, &[], &wanted(4, &[("hw:numa_nodes", "1")])).is_err(), "no guest overcommits against itself");
}

#[test]
fn cells_are_packed_or_spread() {
    let host = host(2, 4, 0, 1);
    let one = wanted(1, &[DEDICATED]);
    let second = |packs| {
        let first = vec![FittedNumaCell {
            cell: 1,
            floating: vec![],
            pinned: vec![(0, 4)],
            emulator: vec![],
            memory_mib: 1024,
            page_kib: None,
        }];
        let bounds = FitLimits { packs, ..FitLimits::default() };
        pins(&fit(&one, cells(&host, [first.as_slice()].into_iter()), bounds).unwrap())
    };
    assert_eq!(second(true), [(1, vec![5])], "packing selects the cell with a guest");
    assert_eq!(second(false), [(0, vec![0])], "spreading selects the empty cell");
}

/// Memory decides only between cells with the same CPUs in use. For a guest with dedicated CPUs, the dedicated CPUs
/// count; for any other guest, the floating ones.
#[test]
fn the_use_of_cpus_matters_more_than_that_of_memory() {
    let host = host(2, 4, 2, 1);
    let used = |cell: u32, floating: &[u32], pinned: &[(u32, u32)], memory_mib: u64| FittedNumaCell {
        cell,
        floating: floating.to_vec(),
        pinned: pinned.to_vec(),
        emulator: vec![],
        memory_mib,
        page_kib: None,
    };
    let chosen = |guests: &[FittedNumaCell], specs: &[(&str, &str)]| {
        [true, false].map(|packs| {
            let bounds = FitLimits { packs, ..FitLimits::default() };
            fit(&wanted(1, specs), cells(&host, [guests].into_iter()), bounds).unwrap()[0].cell
        })
    };
    let floats = ("hw:numa_nodes", "1");
    for specs in [[DEDICATED], [floats]] {
        assert_eq!(chosen(&[used(1, &[], &[], 1024)], &specs), [1, 0], "{specs:?}: only the memory differs");
    }
    // Cell 0 has less free memory; cell 1 has more CPUs in use.
    let floating = [used(0, &[], &[(0, 2)], 2048), used(1, &[0], &[], 64)];
    assert_eq!(chosen(&floating, &[floats]), [1, 0]);
    let dedicated = [used(0, &[0, 1], &[], 2048), used(1, &[], &[(0, 6)], 64)];
    assert_eq!(chosen(&dedicated, &[DEDICATED]), [1, 0]);
}

/// Nodes and CPUs have the guest's own numbers, and the first node gets the first cell in order.
#[test]
fn numbers_of_nodes_and_cpus_are_those_of_the_guest() {
    let host = host(3, 4, 0, 1);
    let specs = [
        DEDICATED,
        ("hw:numa_nodes", "2"),
        ("hw:numa_cpus.0", "1"),
        ("hw:numa_cpus.1", "0"),
        ("hw:numa_mem.0", "512"),
        ("hw:numa_mem.1", "512"),
    ];
    let other = on(&host[2..], &[], &wanted(1, &[DEDICATED])).unwrap();
    let of = |packs| {
        let bounds = FitLimits { packs, ..FitLimits::default() };
        let fitted = fit(&wanted(2, &specs), cells(&host, [other.as_slice()].into_iter()), bounds).unwrap();
        fitted.iter().map(|node| (node.cell, node.pinned.clone())).collect::<Vec<_>>()
    };
    assert_eq!(of(true), [(2, vec![(1, 9)]), (0, vec![(0, 0)])], "the fullest cell is first");
    assert_eq!(of(false), [(0, vec![(1, 0)]), (1, vec![(0, 4)])]);
}

#[test]
fn memory_comes_from_one_cell_in_the_requested_pages() {
    let host = host(2, 4, 2, 1);
    let memory = |mib: u64, specs: &[(&str, &str)]| {
        let topology = ask(&flavor(1, mib, specs), None).unwrap().unwrap();
        on(&host, &[], &topology).map(|fitted| fitted[0].page_kib)
    };
    assert_eq!(memory(4096, &[DEDICATED]), Ok(None));
    assert!(memory(5000, &[DEDICATED]).unwrap_err().contains("wants 5000 MiB, has 4096 MiB free"));
    assert_eq!(memory(128, &[("hw:mem_page_size", "large")]), Ok(Some(2048)));
    assert!(memory(130, &[("hw:mem_page_size", "large")]).is_err(), "64 pages of 2 MiB are no more than 128 MiB");
    assert_eq!(memory(128, &[("hw:mem_page_size", "any")]), Ok(Some(2048)));
    assert_eq!(memory(130, &[("hw:mem_page_size", "any")]), Ok(Some(4)));
    assert_eq!(memory(130, &[("hw:mem_page_size", "small")]), Ok(Some(4)));
    assert!(memory(127, &[("hw:mem_page_size", "2MB")]).is_err(), "no whole number of pages");
    assert!(memory(128, &[("hw:mem_page_size", "1GB")]).unwrap_err().contains("none"));
    let mut giant = host.clone();
    giant[0].pages.push(HostPages { kib: 1 << 20, total: 2 });
    let large = ask(&flavor(1, 2048, &[("hw:mem_page_size", "large")]), None).unwrap().unwrap();
    assert_eq!(on(&giant, &[], &large).map(|fitted| fitted[0].page_kib), Ok(Some(1 << 20)));
}

#[test]
fn allocation_ratios_apply_to_floating_guests_only() {
    let host = host(1, 4, 2, 1);
    let floats = wanted(2, &[("hw:numa_nodes", "1")]);
    let bounds = FitLimits { cpu_ratio: 2.0, memory_ratio: 1.0, packs: true };
    let mut guests: Vec<Vec<FittedNumaCell>> = Vec::new();
    for _ in 0..2 {
        guests.push(fit(&floats, cells(&host, guests.iter().map(Vec::as_slice)), bounds).unwrap());
    }
    let third = fit(&floats, cells(&host, guests.iter().map(Vec::as_slice)), bounds).unwrap_err();
    assert_eq!(third, "cell 0: shared CPUs: wants 2, in use 4 of 2 x 2.0");
    let less = FitLimits { cpu_ratio: 16.0, memory_ratio: 0.5, ..bounds };
    let crowded = fit(&floats, cells(&host, guests.iter().map(Vec::as_slice)), less).unwrap_err();
    assert_eq!(crowded, "cell 0: memory: wants 1024 MiB, in use 2048 MiB of 4096 x 0.5");
    let mixed = wanted(2, &[("hw:cpu_policy", "mixed"), ("hw:cpu_dedicated_mask", "1")]);
    let fitted = on(&host, &[], &mixed).unwrap();
    assert_eq!((fitted[0].floating.clone(), fitted[0].pinned.clone()), (vec![0], vec![(1, 2)]));
}

#[test]
fn the_operator_assigns_processors_to_kinds_of_guests() {
    let cell = NumaCell {
        id: 0,
        cpus: (0..4).collect(),
        siblings: vec![vec![0, 2], vec![1, 3]],
        memory_mib: 1024,
        pages: vec![],
    };
    let of = |shared: Option<&str>, dedicated: Option<&str>| {
        let read = |text: Option<&str>| text.map(|text| CpuSets::read(text).unwrap());
        HostNumaCells::of(std::slice::from_ref(&cell), &CpuSets { shared: read(shared), dedicated: read(dedicated) })
    };
    let free = of(None, None).unwrap();
    assert_eq!((free.cells[0].shared.len(), free.cells[0].dedicated.len(), free.counted), (4, 0, None));
    let both = of(Some("0"), Some("1,3")).unwrap();
    assert_eq!((both.confines, both.counted), (true, Some((1, 2))));
    assert_eq!(both.cells[0].siblings, [vec![1, 3]], "a thread that no guest can get is left out");
    let alone = of(None, Some("2-3")).unwrap();
    assert_eq!((alone.confines, alone.counted), (false, Some((0, 2))));
    assert!(of(None, Some("3-4")).unwrap_err().contains("are not online on the host: 4; it has 0-3"));
    let named = HostCpus::read_named("h1 dedicated=2-3 shared=0-1; h2 dedicated=1 ;").unwrap();
    assert_eq!(named["h1"].dedicated, Some(BTreeSet::from([2, 3])));
    assert_eq!(named["h2"].shared, None);
    for wrong in ["h1 dedicated", "h1 dedicated=a", "h1 shared=0-1 dedicated=1", "dedicated=1", "h1 pinned=1"] {
        assert!(HostCpus::read_named(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn reserved_huge_pages_are_taken_off_the_cells_that_have_them() {
    let cell = |id: u32, pages: &[(u64, u64)]| NumaCell {
        id,
        cpus: vec![id],
        siblings: vec![],
        memory_mib: 4096,
        pages: pages.to_vec(),
    };
    let found = [cell(0, &[(4, 1000), (2048, 10)]), cell(1, &[(2048, 10), (1_048_576, 1)])];
    let reserved: Vec<_> = ["node:0,size:2048,count:3", "node:1,size:1GB,count:5", "node:7,size:2048,count:1"]
        .iter()
        .map(|text| ReservedHugePages::read(text).unwrap())
        .collect();
    let cells = HostNumaCells::of(&found, &CpuSets::default()).unwrap().without(&reserved).cells;
    let left: Vec<Vec<(u64, u64)>> =
        cells.iter().map(|cell| cell.pages.iter().map(|pages| (pages.kib, pages.total)).collect()).collect();
    assert_eq!(left, [vec![(4, 1000), (2048, 7)], vec![(2048, 10), (1_048_576, 0)]]);
    for wrong in [
        "",
        "node:0",
        "node:0,size:2048",
        "node:0,size:any,count:1",
        "node:a,size:4,count:1",
        "node:0,size:4,count:1,x:2",
    ] {
        assert!(ReservedHugePages::read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_driver_gets_the_pinning() {
    let host = host(1, 6, 2, 1);
    let replaced = |confines| {
        let provider = chronova_events::ids::ProviderId(uuid::Uuid::nil());
        chronova_events::ledger::HostCellsReplaced { provider, confines, cells: host.clone() }
    };
    let mixed = wanted(2, &[("hw:cpu_policy", "mixed"), ("hw:cpu_dedicated_mask", "1")]);
    let fitted = on(&host, &[], &mixed).unwrap();
    let told = super::pinning::pinning(Some(&replaced(true)), &fitted, None, &BTreeSet::new());
    assert_eq!(told.nodes[0].cpus, [(0, vec![0, 1]), (1, vec![2])]);
    assert_eq!((told.emulator, told.confined), (vec![0, 1, 2], vec![0, 1]));
    let shared = |confines| {
        super::pinning::pinning(
            Some(&replaced(confines)),
            &fitted,
            Some(EmulatorThreadsPolicy::Share),
            &BTreeSet::new(),
        )
        .emulator
    };
    assert_eq!((shared(true), shared(false)), (vec![0, 1], vec![0, 1, 2]), "with cpu_shared_set, and without");
    let isolated = wanted(1, &[DEDICATED, ("hw:emulator_threads_policy", "isolate")]);
    let fitted = on(&host, &[], &isolated).unwrap();
    let told =
        super::pinning::pinning(Some(&replaced(true)), &fitted, Some(EmulatorThreadsPolicy::Isolate), &BTreeSet::new());
    assert_eq!((told.nodes[0].cpus[0].1.clone(), told.emulator), (vec![2], vec![3]));
    let huge = ask(&flavor(1, 128, &[("hw:mem_page_size", "large")]), None).unwrap().unwrap();
    let told = super::pinning::pinning(Some(&replaced(true)), &on(&host, &[], &huge).unwrap(), None, &BTreeSet::new());
    assert_eq!(told.nodes[0].huge_page_kib, Some(2048));
    let floats = super::pinning::pinning(Some(&replaced(false)), &[], None, &BTreeSet::new());
    assert_eq!(floats, chronova_hypervisor::pinning::Pinning::default(), "without cpu_shared_set");
}
