//! Finds and removes unused images in the cache.
//!
//! The files themselves show which images are needed. Each copy-on-write file in the directory names its base, even if
//! its guest is not ours or is off. The domains name their disks, too. This is needed for a guest that boots from an
//! ISO, because it uses the cached file itself. The search compares file names instead of paths, because a path has
//! several spellings. It may therefore keep an unused image, which does no harm.
//!
//! A removal first deletes the mark that the image is complete. From then on no disk is created from the remaining
//! files, and `ensure_image` uploads the image again.

use std::time::Duration;

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;
use roxmltree::Document;
use virt::connect::Connect;
use virt::storage_pool::StoragePool;
use virt_sys as sys;

use super::error::{Context, found};
use super::host::LibvirtDriver;
use super::pool;
use crate::capability::image_cache::{self, CachedImage, ImageCache};
use crate::driver::DriverResult;
use crate::options::LibvirtOptions;
use crate::volumes;

const CALL: &str = "image cache";
/// How long a call here waits until an upload of the image has ended.
const BRIEFLY: Duration = Duration::from_secs(1);
/// The size of a mark in bytes. A mark has a time as text, which may be shorter than the mark.
const MARK: usize = 32;

/// The images that the files and domains of a host refer to.
struct References(Vec<String>);

impl References {
    fn gather(connect: &Connect, pool: &StoragePool) -> DriverResult<Self> {
        let mut all = Vec::new();
        for volume in pool.list_all_volumes(0).during(CALL)? {
            // A volume that was removed meanwhile needs no image.
            let Some(xml) = found(CALL, volume.xml_desc(0))? else { continue };
            all.extend(pool::backing_path(&xml));
        }
        for domain in connect.list_all_domains(0).during(CALL)? {
            // The running and the persistent definition.
            for flags in [0, sys::VIR_DOMAIN_XML_INACTIVE] {
                if let Some(xml) = found(CALL, domain.xml_desc(flags))? {
                    all.extend(sources(&xml));
                }
            }
        }
        Ok(Self(all))
    }

    fn name(&self, checksum: &str) -> bool {
        let base = volumes::base_of(checksum);
        self.0.iter().any(|reference| reference.contains(&base))
    }
}

/// The files in a domain's definition.
fn sources(xml: &str) -> Vec<String> {
    let Ok(document) = Document::parse(xml) else { return vec![xml.to_owned()] };
    let sources = document.descendants().filter(|node| node.has_tag_name("source"));
    sources
        .flat_map(|node| node.attributes().map(|attribute| attribute.value().to_owned()).collect::<Vec<_>>())
        .collect()
}

/// The time in the mark; `None` for a missing or incomplete mark.
fn idle_since(connect: &Connect, pool: &StoragePool, checksum: &str) -> DriverResult<Option<Timestamp>> {
    let Some(mark) = pool::lookup(pool, &volumes::base_idle(checksum))? else { return Ok(None) };
    let text = pool::tail(connect, &mark, MARK)?;
    Ok(std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok()).map(Timestamp))
}

fn list(connect: &Connect, options: &LibvirtOptions) -> DriverResult<Vec<CachedImage>> {
    let pool = pool::open(connect, options)?;
    pool::must_refresh(&pool)?;
    let images = image_cache::among(&pool::names(&pool)?);
    if images.is_empty() {
        return Ok(Vec::new());
    }
    let references = References::gather(connect, &pool)?;
    let describe = |(checksum, is_idle): (String, bool)| {
        let base = pool::lookup(&pool, &volumes::base_of(&checksum))?;
        Ok(CachedImage {
            size: base.map_or(Ok(0), |base| pool::physical_size(&base))?,
            is_used: references.name(&checksum),
            idle_since: if is_idle { idle_since(connect, &pool, &checksum)? } else { None },
            checksum,
        })
    };
    images.into_iter().map(describe).collect()
}

fn note(connect: &Connect, options: &LibvirtOptions, checksum: &str, since: Option<Timestamp>) -> DriverResult<()> {
    let pool = pool::open(connect, options)?;
    let mark = volumes::base_idle(checksum);
    if let Some(Timestamp(at)) = since {
        // If the image was removed meanwhile, no mark is written.
        return match pool::lookup(&pool, &volumes::base_of(checksum))? {
            Some(_) => pool::put(connect, &pool, &mark, at.to_string().as_bytes()),
            None => Ok(()),
        };
    }
    match pool::lookup(&pool, &mark)? {
        Some(mark) => pool::delete(&mark),
        None => Ok(()),
    }
}

fn remove(connect: &Connect, options: &LibvirtOptions, checksum: &str, idle_by: Timestamp) -> DriverResult<bool> {
    let pool = pool::open(connect, options)?;
    // The decision depends on the files that exist now, including files that other hosts have created.
    pool::must_refresh(&pool)?;
    let since = idle_since(connect, &pool, checksum)?;
    if since.is_none_or(|since| since > idle_by) || References::gather(connect, &pool)?.name(checksum) {
        return Ok(false);
    }
    let base = volumes::base_of(checksum);
    for name in [volumes::complete(&base), base, volumes::base_idle(checksum)] {
        if let Some(volume) = pool::lookup(&pool, &name)? {
            pool::delete(&volume)?;
        }
    }
    Ok(true)
}

#[async_trait]
impl ImageCache for LibvirtDriver {
    async fn cached_images(&self) -> DriverResult<Vec<CachedImage>> {
        self.call_within(CALL, self.making(), list).await
    }

    async fn note_idle(&self, checksum: &str, since: Option<Timestamp>) -> DriverResult<()> {
        // An image that is being uploaded is in use.
        let Ok(pass) = self.images.alone_with(checksum, BRIEFLY).await else { return Ok(()) };
        let checksum = checksum.to_owned();
        self.call(CALL, move |connect, options| {
            let _until_done = pass;
            note(connect, options, &checksum, since)
        })
        .await
    }

    async fn remove_image(&self, checksum: &str, idle_by: Timestamp) -> DriverResult<bool> {
        let Ok(pass) = self.images.alone_with(checksum, BRIEFLY).await else { return Ok(false) };
        let checksum = checksum.to_owned();
        self.call_within(CALL, self.making(), move |connect, options| {
            let _until_done = pass;
            remove(connect, options, &checksum, idle_by)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_refers_to_its_disks_and_their_backing_files() {
        let sum = "ab".repeat(32);
        let xml = format!(
            "<domain><devices><disk type='file'><source file='/p/id_disk'/><backingStore type='file'>\
             <source file='/p/base-{sum}'/></backingStore></disk></devices></domain>"
        );
        assert!(References(sources(&xml)).name(&sum));
        assert!(!References(sources(&xml)).name(&"cd".repeat(32)));
        assert!(
            References(sources(&format!("<torn base-{sum}"))).name(&sum),
            "an unreadable definition must be searched as text"
        );
    }
}
