//! Puts an image on a host for a server that does not have its content yet, and verifies the image's signature.
//!
//! Build, rebuild, rescue and unshelve do this. Any other process puts a server's own content on a host again. The
//! server's record has the checksum of that content, and the host compares the checksum, so the signature is not
//! verified again. So a certificate that has expired since the build stops neither a migration nor an evacuation.

use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, ImageSnapshot};

use super::definition::{StepError, StepRun};
use super::guest;
use crate::image_signatures::{ImageToPlace, PlaceError, SignatureFault};

/// Makes the message of the process's error about a refused image.
pub(super) type RefusalWords = fn(&StepRun, &SignatureFault) -> String;

/// Prepares the host for the server's image: image, networks and filters.
pub(super) async fn prepare(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    words: RefusalWords,
) -> Result<(), StepError> {
    let image = async {
        match server.root_image() {
            Some(image) => place(work, host, server, image, words).await,
            None => Ok(()),
        }
    };
    futures::try_join!(image, guest::connect(work, host, server)).map(drop)
}

/// Puts an image on the host, and holds it there until the process has ended.
pub(super) async fn place(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    image: &ImageSnapshot,
    words: RefusalWords,
) -> Result<(), StepError> {
    let (driver, context) = (work.driver(host)?, &work.context);
    let found = guest::image_ref(image);
    let source = guest::source_for(work, server, image);
    context.image_holds.hold(work.running.process, host, &image.checksum).await;
    let (properties, trusted) = (image.properties.as_slice(), server.request.trusted_certs.as_slice());
    let wanted = ImageToPlace { image: &found, properties, trusted, work: &work.meta };
    match context.signatures.place(driver.as_ref(), source, wanted).await {
        Err(PlaceError::Signature(fault)) => Err(StepError::fatal(500, &words(work, &fault), "")),
        other => Ok(other?),
    }
}

/// Only the text of the refusal, as Nova records it for a rebuild and for an unshelve.
pub(super) fn plain(_: &StepRun, fault: &SignatureFault) -> String {
    fault.to_string()
}

/// Nova's `BuildAbortException`.
pub(super) fn build_aborted(work: &StepRun, fault: &SignatureFault) -> String {
    format!("Build of instance {} aborted: {fault}", work.instance_id())
}

/// Nova's `InstanceNotRescuable`.
pub(super) fn not_rescuable(work: &StepRun, fault: &SignatureFault) -> String {
    format!("Instance {} cannot be rescued: Driver Error: {fault}", work.instance_id())
}
