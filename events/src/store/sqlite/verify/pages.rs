//! Checks the files as bytes: pages against their seals, the write-ahead log against its own checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::{Findings, LogDamage, Verification};
use crate::envelope::Position;
use crate::store::sqlite::data_file::DataFile;
use crate::store::sqlite::row::unsigned;
use crate::store::sqlite::schema::connect;
use crate::store::sqlite::seals::{self, SealsHeader, WalRemains};
use crate::store::sqlite::{by_stream, wal};

/// The largest number of failed checks before a mismatch is reported as damage. A running writer moves pages from the
/// write-ahead log into the data file and seals them a moment later, so one failed check proves nothing.
const CHECKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// Finds the pages that differ from their seals. [`locate`] reports them later, with their events.
pub(super) fn check(path: &Path, data: &DataFile, findings: &Findings, found: &mut Verification) -> Vec<u64> {
    match compare(path, data, found) {
        Ok(bad) => bad,
        Err(error) => {
            findings.of_log(format!("the seals of the pages (log.db.seals) cannot be used: {error}"));
            Vec::new()
        }
    }
}

fn compare(path: &Path, data: &DataFile, found: &mut Verification) -> io::Result<Vec<u64>> {
    let Some((header, _)) = seals::read(path)? else {
        found.remarks.push("the pages have no seals (log.db.seals): free space in the file was not checked".to_owned());
        return Ok(Vec::new());
    };
    if !header.current {
        found.remarks.push("the seals of the pages are stale: free space in the file was not checked".to_owned());
        return Ok(Vec::new());
    }
    if WalRemains::of(path).are_overtaken(path) {
        let what =
            "another program moved a killed server's write-ahead log into the data file, so the seals are too old";
        found.remarks.push(format!("{what}; free space in the file was not checked"));
        return Ok(Vec::new());
    }
    let (mut bad, pages) = compare_all(path, data)?;
    found.pages = pages;
    for _ in 1..CHECKS {
        if bad.is_empty() {
            break;
        }
        // If the write-ahead log is empty, the writer moves no pages now. But it may have emptied the log just before,
        // so one more check follows.
        let at_rest = wal::path_of(path).metadata().map_or(true, |wal| wal.len() == 0);
        if !at_rest {
            #[expect(clippy::disallowed_methods, reason = "a verification has threads of its own")]
            std::thread::sleep(PAUSE);
        }
        bad = compare_again(path, data, &bad)?;
        if at_rest {
            break;
        }
    }
    Ok(bad)
}

/// Compares every page with its seal. Returns the pages that differ, and the number of pages.
fn compare_all(path: &Path, data: &DataFile) -> io::Result<(Vec<u64>, u64)> {
    let Some((header, seals)) = seals::read(path)? else { return Ok((Vec::new(), 0)) };
    let (mut bad, mut count) = (Vec::new(), 0);
    let wanted = |page: u64| usize::try_from(page - 1).ok().and_then(|at| seals.get(at)).copied();
    seals::pages(data, header.page_size, 0, |page, bytes| {
        count = page;
        if wanted(page) != Some(seals::seal(page, bytes)) {
            bad.push(page);
        }
        Ok(())
    })?;
    // Pages that the file has lost, and seals without a page.
    bad.extend(count + 1..=header.pages.max(seals.len() as u64));
    if !bad.is_empty() {
        remove_moved(path, data, &header, &mut bad)?;
    }
    Ok((bad, count))
}

fn compare_again(path: &Path, data: &DataFile, suspects: &[u64]) -> io::Result<Vec<u64>> {
    let Some((header, seals)) = seals::read(path)? else { return Ok(suspects.to_vec()) };
    let mut bytes = vec![0; header.page_size as usize];
    let mut bad = Vec::new();
    for page in suspects {
        let wanted = usize::try_from(page - 1).ok().and_then(|at| seals.get(at)).copied();
        let read = data.page(*page, &mut bytes);
        if read.is_err() || wanted != Some(seals::seal(*page, &bytes)) {
            bad.push(*page);
        }
    }
    remove_moved(path, data, &header, &mut bad)?;
    Ok(bad)
}

/// Removes from `bad` the pages that are the same in the write-ahead log and in the data file. The writer has moved
/// these pages and has not sealed them yet.
fn remove_moved(path: &Path, data: &DataFile, header: &SealsHeader, bad: &mut Vec<u64>) -> io::Result<()> {
    let mut frame_seals: BTreeMap<u64, Vec<u32>> = bad.iter().map(|page| (*page, Vec::new())).collect();
    wal::frames(&wal::path_of(path), |frame| {
        if let Some(seals) = frame_seals.get_mut(&u64::from(frame.page)) {
            seals.push(seals::seal(frame.page.into(), frame.data));
        }
    })?;
    let mut bytes = vec![0; header.page_size as usize];
    bad.retain(|page| {
        let read = data.page(*page, &mut bytes);
        let seals = frame_seals.get(page).map_or(&[][..], Vec::as_slice);
        // Any frame of the page may match, because the writer may have moved an older frame and not yet the last one.
        !(read.is_ok() && seals.contains(&seals::seal(*page, &bytes)))
    });
    Ok(())
}

/// Counts frames that belong to no committed transaction. A crash leaves some, and so does a flipped bit in the last
/// committed transaction. Only `log.db.witness`, which records the end of the log, shows whether they contained an
/// event.
pub(super) fn check_write_ahead(path: &Path, found: &mut Verification) {
    for check in 1.. {
        let unfinished = match wal::frames(&wal::path_of(path), |_| ()) {
            Ok(contents) => contents.unfinished,
            Err(error) => {
                found.remarks.push(format!("the write-ahead log cannot be read: {error}"));
                return;
            }
        };
        match (unfinished, check) {
            (0, _) => return,
            (_, CHECKS) => {
                let what = "page(s) that belong to no committed transaction, as after a crash";
                found.remarks.push(format!("the write-ahead log ends with {unfinished} {what}"));
                return;
            }
            #[expect(clippy::disallowed_methods, reason = "a verification has threads of its own")]
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Finds the tables of damaged pages, and the events on them.
pub(super) fn locate(path: &Path, data: &DataFile, pages: &[u64], head: Position) -> Vec<LogDamage> {
    if pages.is_empty() {
        return Vec::new();
    }
    let Ok(Some((header, _))) = seals::read(path) else {
        return pages.iter().map(|page| of_page(*page, "")).collect();
    };
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok();
    let owners = connection.as_ref().map(|connection| owners(connection, pages));
    let place = |page: &u64| {
        let Some(bytes) = page_at(data, header.page_size, *page) else {
            let what = format!("page {page} is missing from the data file");
            return LogDamage { position: None, stream: None, page: Some(*page), what };
        };
        match (&connection, &owners) {
            (Some(connection), Some(owners)) => match owners.get(page) {
                Some(owner) => on_page(data, connection, &header, (*page, bytes), owner, head),
                None => of_page(*page, " (of no known table: free, or used by SQLite itself)"),
            },
            _ => of_page(*page, ""),
        }
    };
    pages.iter().map(place).collect()
}

fn of_page(page: u64, whose: &str) -> LogDamage {
    let what = format!("page {page}{whose} does not match its seal");
    LogDamage { position: None, stream: None, page: Some(page), what }
}

/// Names the events on a page, if it has any.
fn on_page(
    data: &DataFile,
    connection: &Connection,
    header: &SealsHeader,
    (page, bytes): (u64, Vec<u8>),
    owner: &PageOwner,
    head: Position,
) -> LogDamage {
    let leaf = owner.leaf.unwrap_or(page);
    let holder = if leaf == page { Some(bytes) } else { page_at(data, header.page_size, leaf) };
    let positions = match (owner.table.as_str(), holder) {
        ("events", Some(holder)) => rowids(&holder, usize::from(leaf == 1) * 100, head),
        _ => Vec::new(),
    };
    let Some((first, last)) = positions.iter().min().zip(positions.iter().max()) else {
        return of_page(page, &format!(" (of {})", owner.table));
    };
    let position = Position(*first);
    LogDamage {
        position: Some(position),
        stream: by_stream::place_of(connection, position).map(|(stream, _)| stream),
        ..of_page(page, &format!(" (events {first} to {last})"))
    }
}

fn page_at(data: &DataFile, size: u32, page: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size as usize];
    data.page(page, &mut bytes).ok()?;
    Some(bytes)
}

/// The table or index of a page, and the leaf that an overflow page continues.
struct PageOwner {
    table: String,
    leaf: Option<u64>,
}

/// Finds the owner of each page in one pass over the file, and the leaves of overflow pages in a second one. The path
/// of an overflow page is that of its leaf, `+`, and a number: <https://www.sqlite.org/dbstat.html>. If a damaged page
/// ends the first pass, later pages have no owner.
fn owners(connection: &Connection, pages: &[u64]) -> BTreeMap<u64, PageOwner> {
    let mut wanted: BTreeSet<u64> = pages.iter().copied().collect();
    let (mut found, mut leaves) = (BTreeMap::new(), BTreeMap::new());
    let _ = walk(connection, "SELECT pageno, name, path FROM dbstat", |page, table, path| {
        if wanted.remove(&page) {
            if let Some((leaf, _)) = path.split_once('+')
                && table == "events"
            {
                leaves.insert(page, leaf.to_owned());
            }
            found.insert(page, PageOwner { table, leaf: None });
        }
        !wanted.is_empty()
    });
    if !leaves.is_empty() {
        let mut places: BTreeMap<String, Option<u64>> = leaves.values().map(|leaf| (leaf.clone(), None)).collect();
        let _ = walk(connection, "SELECT pageno, name, path FROM dbstat WHERE name = 'events'", |page, _, path| {
            if let Some(place) = places.get_mut(&path) {
                *place = Some(page);
            }
            true
        });
        for (page, leaf) in &leaves {
            match places.get(leaf) {
                Some(Some(place)) => found.entry(*page).and_modify(|owner| owner.leaf = Some(*place)),
                // Without its leaf, the owner of an overflow page is unknown.
                _ => {
                    found.remove(page);
                    continue;
                }
            };
        }
    }
    found
}

/// Calls `each` with number, table and path of the pages that the query finds, until `each` returns `false`.
fn walk(connection: &Connection, sql: &str, mut each: impl FnMut(u64, String, String) -> bool) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if !each(unsigned(row.get(0)?), row.get(1)?, row.get(2)?) {
            break;
        }
    }
    Ok(())
}

/// The row numbers in a leaf of a table (<https://www.sqlite.org/fileformat2.html#b_tree_pages>), except for
/// implausible ones: 0, and those after `head`.
fn rowids(page: &[u8], offset: usize, head: Position) -> Vec<u64> {
    const LEAF: u8 = 0x0d;
    if page.get(offset) != Some(&LEAF) {
        return Vec::new();
    }
    let short = |at: usize| page.get(at..at + 2).map(|pair| usize::from(pair[0]) << 8 | usize::from(pair[1]));
    let cells = short(offset + 3).unwrap_or(0);
    let row = |cell: usize| {
        let (_, payload) = varint(page, short(offset + 8 + 2 * cell)?)?;
        let (rowid, _) = varint(page, payload)?;
        (1..=head.0).contains(&rowid).then_some(rowid)
    };
    (0..cells).filter_map(row).collect()
}

/// Reads a number of up to nine bytes. Returns the number, and the index after its last byte.
fn varint(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for length in 1.. {
        let byte = *bytes.get(at)?;
        at += 1;
        if length == 9 {
            return Some((value << 8 | u64::from(byte), at));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_reads_numbers_as_sqlite_writes_them() {
        assert_eq!(varint(&[0x7f], 0), Some((0x7f, 1)));
        assert_eq!(varint(&[0x81, 0x00], 0), Some((128, 2)));
        assert_eq!(varint(&[0xff; 9], 0), Some((u64::MAX, 9)));
        assert_eq!(varint(&[0x81], 0), None);
    }
}
