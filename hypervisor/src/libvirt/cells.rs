//! The NUMA cells of a host in libvirt's capabilities.

use std::collections::BTreeSet;

use roxmltree::{Document, Node};
use virt::connect::Connect;

use super::error::Context;
use crate::cpus;
use crate::driver::{DriverError, DriverResult};
use crate::pinning::NumaCell;

const CALL: &str = "capabilities";

/// Reads the cells. Nothing is cached, because CPUs go off and on, and operators change the number of huge pages.
pub(super) fn learn(connect: &Connect) -> DriverResult<Vec<NumaCell>> {
    let xml = connect.capabilities().during(CALL)?;
    read(&xml).map_err(|error| DriverError::Failed { call: CALL, message: format!("unreadable answer: {error}") })
}

fn read(xml: &str) -> Result<Vec<NumaCell>, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let host = document.root_element().children().find(|node| node.has_tag_name("host"));
    let topology = host.and_then(|host| host.children().find(|node| node.has_tag_name("topology")));
    let cells = topology.into_iter().flat_map(|node| node.descendants()).filter(|node| node.has_tag_name("cell"));
    let mut cells: Vec<NumaCell> = cells.filter_map(cell).collect();
    cells.sort_by_key(|cell| cell.id);
    Ok(cells)
}

/// Reads one cell; `None` for a cell without CPUs, on which no guest fits.
fn cell(node: Node<'_, '_>) -> Option<NumaCell> {
    let id = node.attribute("id")?.parse().ok()?;
    let number = |node: Node<'_, '_>| node.text().and_then(|text| text.trim().parse::<u64>().ok());
    let memory = node.children().find(|child| child.has_tag_name("memory")).and_then(number).unwrap_or(0);
    let mut pages: Vec<(u64, u64)> = node
        .children()
        .filter(|child| child.has_tag_name("pages"))
        .filter_map(|pages| Some((pages.attribute("size")?.parse().ok()?, number(pages)?)))
        .collect();
    pages.sort_unstable();
    let listed = || node.descendants().filter(|child| child.has_tag_name("cpu"));
    let mut cpus: Vec<u32> = listed().filter_map(|cpu| cpu.attribute("id")?.parse().ok()).collect();
    cpus.sort_unstable();
    let threads = listed().filter_map(|cpu| cpus::parse(cpu.attribute("siblings")?).ok());
    let cores: BTreeSet<Vec<u32>> =
        threads.filter(|core| core.len() > 1).map(|core| core.into_iter().collect()).collect();
    let siblings = cores.into_iter().collect();
    (!cpus.is_empty()).then_some(NumaCell { id, cpus, siblings, memory_mib: memory / 1024, pages })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Two cells of two cores with two threads each, and one cell without CPUs, as libvirt 9 lists them.
    const CAPABILITIES: &str = "<capabilities><host><cpu><arch>x86_64</arch></cpu><topology><cells num='3'>\
        <cell id='0'><memory unit='KiB'>4026664</memory><pages unit='KiB' size='4'>1006666</pages>\
        <pages unit='KiB' size='2048'>16</pages><distances><sibling id='0' value='10'/></distances><cpus num='4'>\
        <cpu id='0' socket_id='0' die_id='0' core_id='0' siblings='0,4'/><cpu id='1' core_id='1' siblings='1,5'/>\
        <cpu id='4' core_id='0' siblings='0,4'/><cpu id='5' core_id='1' siblings='1,5'/></cpus></cell>\
        <cell id='1'><memory unit='KiB'>4026664</memory><cpus num='2'><cpu id='2' siblings='2-3'/>\
        <cpu id='3' siblings='2-3'/></cpus></cell><cell id='2'><memory unit='KiB'>99</memory></cell>\
        </cells></topology></host><guest/></capabilities>";

    #[test]
    fn cells_are_read_as_libvirt_lists_them() {
        let cells = read(CAPABILITIES).unwrap();
        let first = NumaCell {
            id: 0,
            cpus: vec![0, 1, 4, 5],
            siblings: vec![vec![0, 4], vec![1, 5]],
            memory_mib: 3932,
            pages: vec![(4, 1_006_666), (2048, 16)],
        };
        assert_eq!(cells[0], first);
        assert_eq!((cells.len(), &cells[1].cpus, &cells[1].siblings), (2, &vec![2, 3], &vec![vec![2, 3]]));
        assert_eq!(read("<capabilities><host/></capabilities>").unwrap(), []);
    }
}
