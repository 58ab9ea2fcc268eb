//! `chronova host check`: asks each host what its guests can have, and says why they cannot have the rest.
//!
//! The command asks the same questions as the server at registration. So the server refuses to register a host that
//! fails here, for the same reason.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use chronova_hypervisor::backend;
use chronova_hypervisor::driver::{Driver, DriverError, DriverResult, HostSignal};
use chronova_hypervisor::guest::HostCapabilities;
use futures::StreamExt as _;

use super::super::{CommandFailure, Exit};
use crate::config::Config;

/// How long a host may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(uris: &[String], config: &Config, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let configured = &config.chronova.hypervisors.0;
    let uris = if uris.is_empty() { configured } else { uris };
    if uris.is_empty() {
        return Err(CommandFailure::Usage("name a host, or configure [chronova] hypervisors".to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let options = config.targets().drivers;
    let mut exit = Exit::Yes;
    for uri in uris {
        // The drivers are opened inside the runtime, so that they can use its tasks and timers.
        let _entered = runtime.enter();
        let drivers = backend::open(uri, &options).map_err(|error| CommandFailure::Usage(error.to_string()))?;
        for driver in drivers {
            let asked = runtime.block_on(ask(&driver, async || driver.capabilities().await));
            if !tell(driver.uri(), &asked, out)? {
                exit = Exit::No;
            }
        }
    }
    Ok(exit)
}

/// Asks the host when it is connected.
pub(super) async fn ask<T>(driver: &Arc<dyn Driver>, question: impl AsyncFn() -> DriverResult<T>) -> DriverResult<T> {
    let mut signals = driver.watch();
    let asked = async {
        loop {
            match signals.next().await {
                Some(HostSignal::Connected) => return question().await,
                Some(HostSignal::Disconnected { reason }) => return Err(DriverError::Unreachable(reason)),
                Some(_) => {}
                None => return Err(DriverError::Unreachable("its driver ended".to_owned())),
            }
        }
    };
    let late = || DriverError::Timeout { call: "connect", seconds: PATIENCE.as_secs() };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(late()))
}

/// Writes the report on one host. Returns whether the server would register it.
fn tell(uri: &str, asked: &DriverResult<HostCapabilities>, out: &mut dyn Write) -> std::io::Result<bool> {
    let found = match asked {
        Ok(found) => found,
        Err(error) => {
            writeln!(out, "{uri}\n  FAIL  {error}")?;
            return Ok(false);
        }
    };
    let version = |number: u32| format!("{}.{}.{}", number / 1_000_000, number / 1_000 % 1_000, number % 1_000);
    let (hypervisor, libvirt) = (version(found.hypervisor_version), version(found.libvirt_version));
    let kind = &found.hypervisor_type;
    writeln!(out, "{uri}\n  ok    {}: {kind} {hypervisor}, libvirt {libvirt}", found.hostname)?;
    match &found.emulates_because {
        None => writeln!(out, "  ok    guests run with KVM")?,
        Some(reason) => writeln!(out, "  note  guests are emulated, which is slow: {reason}")?,
    }
    for (name, what) in [
        ("COMPUTE_FIRMWARE_UEFI", "UEFI"),
        ("COMPUTE_SECURITY_UEFI_SECURE_BOOT", "secure boot"),
        ("COMPUTE_SECURITY_TPM_1_2", "an emulated TPM 1.2"),
        ("COMPUTE_SECURITY_TPM_2_0", "an emulated TPM 2.0"),
    ] {
        let (mark, can) = match found.traits.iter().any(|has| has == name) {
            true => ("ok  ", "can"),
            false => ("note", "cannot"),
        };
        writeln!(out, "  {mark}  guests {can} have {what}")?;
    }
    tell_flags(found, out)?;
    match found.iommu {
        true => writeln!(out, "  ok    guests can have PCI devices of the host")?,
        false => writeln!(
            out,
            "  note  guests cannot have PCI devices of the host, because its IOMMU is off: switch VT-d or AMD-Vi on in the \
             machine's firmware, and boot with intel_iommu=on or amd_iommu=on"
        )?,
    }
    tell_real_time(found, out)?;
    Ok(true)
}

/// Writes what the host lacks for guests with CPUs in real time. libvirt tells neither whether the kernel is a real-time
/// kernel nor which processors it isolates.
fn tell_real_time(found: &HostCapabilities, out: &mut dyn Write) -> std::io::Result<()> {
    let threads = found.cells.iter().flat_map(|cell| &cell.siblings).any(|core| core.len() > 1);
    let huge = found.cells.iter().any(|cell| cell.pages.iter().filter(|(_, total)| *total > 0).count() > 1);
    let lacks: Vec<&str> = [
        (!found.kvm, "KVM"),
        (threads, "cores of one thread (switch SMT off in the machine's firmware)"),
        (!huge, "huge pages (reserve them at boot, with hugepagesz and hugepages)"),
    ]
    .into_iter()
    .filter_map(|(lacks, what)| lacks.then_some(what))
    .collect();
    match lacks.is_empty() {
        true => writeln!(
            out,
            "  ok    guests can have CPUs in real time, if the kernel is a real-time kernel that isolates them"
        ),
        false => writeln!(out, "  note  guests cannot have CPUs in real time: the host lacks {}", lacks.join(", ")),
    }
}

/// CPU flags by which a guest's kernel defends itself against flaws of the processor.
const AGAINST_FLAWS: [&str; 7] = ["md-clear", "spec-ctrl", "ibpb", "stibp", "ssbd", "virt-ssbd", "arch-capabilities"];

/// Writes which flags guests get. A guest that runs keeps its flags until it is stopped and started.
fn tell_flags(found: &HostCapabilities, out: &mut dyn Write) -> std::io::Result<()> {
    let has = |name: &str| found.guest_flags.iter().any(|flag| flag == name);
    let against: Vec<&str> = AGAINST_FLAWS.into_iter().filter(|name| has(name)).collect();
    let others = if against.is_empty() { "none".to_owned() } else { against.join(", ") };
    match has("md-clear") {
        true => writeln!(out, "  ok    guests get CPU flags against flaws of processors: {others}")?,
        false => writeln!(
            out,
            "  note  guests get no CPU flag md-clear, with which their kernels clear buffers (MDS). Flags against other flaws: \
             {others}. Update the host's microcode, kernel and libvirt; with cpu_mode = custom, name the flags in \
             cpu_model_extra_flags"
        )?,
    }
    match ["vmx", "svm"].into_iter().find(|name| has(name)) {
        Some(flag) => writeln!(out, "  ok    guests can run guests of their own with KVM ({flag})"),
        None => writeln!(
            out,
            "  note  guests cannot run guests of their own with KVM: load the host's module kvm_intel or kvm_amd with \
             nested=1, and let [libvirt] cpu_mode pass on vmx or svm"
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_hypervisor::backend::DriverOptions;
    use chronova_hypervisor::pinning::NumaCell;

    use super::*;

    /// The exit and the report for these hosts.
    fn checked(uris: &[&str]) -> (bool, String) {
        let config = crate::config::load(&[]).unwrap().config;
        let (uris, mut out) = (uris.iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::new());
        let exit = run(&uris, &config, &mut out).unwrap();
        (matches!(exit, Exit::Yes), String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_report_says_whether_guests_run_with_kvm() {
        let (good, report) = checked(&["sim://1"]);
        assert!(good && report.contains("  ok    guests run with KVM\n"), "{report}");
        let (good, report) = checked(&["sim://1?kvm=false"]);
        let reason = "  note  guests are emulated, which is slow: the simulated fleet has no KVM\n";
        assert!(good && report.contains(reason), "{report}");
        let (good, report) = checked(&["sim://2?kvm=true"]);
        assert!(good && report.matches("guests run with KVM").count() == 2, "one host is missing: {report}");
    }

    #[test]
    fn a_host_that_cannot_be_asked_fails_with_the_reason() {
        let mut out = Vec::new();
        let error = DriverError::Unreachable("no route to host".to_owned());
        assert!(!tell("qemu+tls://h1/system", &Err(error), &mut out).unwrap());
        let report = String::from_utf8(out).unwrap();
        assert!(
            report.starts_with("qemu+tls://h1/system\n  FAIL  ") && report.contains("no route to host"),
            "{report}"
        );
    }

    #[tokio::test]
    async fn the_report_says_which_cpu_flags_guests_get() {
        let driver = backend::open("sim://1", &DriverOptions::default()).unwrap().remove(0);
        let mut found = driver.capabilities().await.unwrap();
        let mut said = |flags: &[&str]| {
            found.guest_flags = flags.iter().map(ToString::to_string).collect();
            let mut out = Vec::new();
            tell("sim://1", &Ok(found.clone()), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let all = said(&["aes", "md-clear", "ssbd", "svm"]);
        assert!(all.contains("ok    guests get CPU flags against flaws of processors: md-clear, ssbd\n"), "{all}");
        assert!(all.contains("ok    guests can run guests of their own with KVM (svm)\n"), "{all}");
        let none = said(&["spec-ctrl"]);
        assert!(none.contains("note  guests get no CPU flag md-clear"), "{none}");
        assert!(none.contains("Flags against other flaws: spec-ctrl."), "{none}");
        assert!(none.contains("note  guests cannot run guests of their own with KVM"), "{none}");
        assert!(said(&[]).contains("Flags against other flaws: none."));
    }

    #[tokio::test]
    async fn the_report_says_what_the_host_lacks_for_cpus_in_real_time() {
        let driver = backend::open("sim://1", &DriverOptions::default()).unwrap().remove(0);
        let mut found = driver.capabilities().await.unwrap();
        let cell = |siblings: Vec<Vec<u32>>, huge: u64| NumaCell {
            id: 0,
            cpus: (0..4).collect(),
            siblings,
            memory_mib: 4096,
            pages: vec![(4, 1 << 19), (2048, huge)],
        };
        let mut said = |kvm: bool, cell: NumaCell| {
            (found.kvm, found.cells) = (kvm, vec![cell]);
            let mut out = Vec::new();
            tell("sim://1", &Ok(found.clone()), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let good = said(true, cell(vec![], 512));
        assert!(good.contains("  ok    guests can have CPUs in real time, if"), "{good}");
        let none = said(false, cell(vec![vec![0, 1], vec![2, 3]], 0));
        let words =
            "  note  guests cannot have CPUs in real time: the host lacks KVM, cores of one thread (switch SMT off";
        assert!(none.contains(words) && none.contains("huge pages (reserve them at boot"), "{none}");
        assert!(said(true, cell(vec![], 0)).contains("the host lacks huge pages ("));
    }

    #[tokio::test]
    async fn a_host_whose_iommu_is_off_gives_guests_no_devices() {
        let driver = backend::open("sim://1", &DriverOptions::default()).unwrap().remove(0);
        let mut found = driver.capabilities().await.unwrap();
        for (iommu, words) in [
            (true, "ok    guests can have PCI devices of the host"),
            (
                false,
                "note  guests cannot have PCI devices of the host, because its IOMMU is off: switch VT-d or AMD-Vi on",
            ),
        ] {
            found.iommu = iommu;
            let mut said = Vec::new();
            assert!(tell("sim://1", &Ok(found.clone()), &mut said).unwrap(), "the host is registered all the same");
            let said = String::from_utf8(said).unwrap();
            assert!(said.contains(words), "{said}");
        }
    }
}
