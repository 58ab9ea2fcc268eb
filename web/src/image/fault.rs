//! Faults of the image API. Where Glance has the same fault, most texts are Glance's.

use chronova_actors::aggregate::CommandError;
use chronova_actors::services::embedded::image::ImageReject;
use chronova_actors::services::embedded::image::files::ReceiveError;
use chronova_actors::services::image_inspection::InspectError;
use chronova_events::ids::ImageId;

use crate::fault::Fault;

pub(super) fn not_found(id: &str) -> Fault {
    Fault::not_found(format!("No image found with ID {id}"))
}

pub(super) fn of(image: ImageId, error: CommandError<ImageReject>) -> Fault {
    let reject = match error {
        CommandError::Rejected(reject) => reject,
        CommandError::Unavailable(source) => return Fault::of_log(&source),
    };
    match reject {
        ImageReject::NotFound => not_found(&image.to_string()),
        ImageReject::IdTaken(id) => Fault::conflict(format!("Image ID {id} already exists!")),
        ImageReject::Protected => Fault::forbidden(format!("Image {image} is protected and cannot be deleted.")),
        ImageReject::NotInState { from, to } => {
            Fault::conflict(format!("Image status transition from {from} to {to} is not allowed"))
        }
        ImageReject::OnlyWhileQueued(attribute) => {
            Fault::forbidden(format!("Attribute {attribute} can be only replaced for a queued image."))
        }
        ImageReject::FormatMissing => {
            Fault::bad_request("Properties disk_format, container_format must be set prior to saving data.")
        }
        ImageReject::NoProperty(name) => Fault::conflict(format!("Property {name} does not exist.")),
        ImageReject::NoTag(_) => Fault::not_found("Tag not found."),
        ImageReject::FormatsDisagree { .. } => Fault::bad_request(
            "Invalid mix of disk and container formats. When setting a disk or container format to one of 'aki', 'ari', \
             or 'ami', the container and disk formats must match.",
        ),
        ImageReject::TooMany { what, limit } => {
            Fault::new(413, format!("The limit has been exceeded on the number of allowed image {what}: {limit}."))
        }
        ImageReject::TooLarge { .. } | ImageReject::OverQuota { .. } => Fault::new(413, sentence(&reject)),
        ImageReject::NotShared => Fault::forbidden("Only shared images have members."),
        ImageReject::MemberExists(member) => {
            Fault::conflict(format!("Member {member} is duplicated for image {image}"))
        }
        ImageReject::NoMember(member) => {
            Fault::not_found(format!("{member} not found in the member list of the image {image}."))
        }
    }
}

/// A rejection as a sentence.
fn sentence(reject: &ImageReject) -> String {
    let text = reject.to_string();
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}.", first.to_uppercase())
}

/// The reason why an upload failed.
pub(super) fn of_upload(error: ReceiveError) -> Fault {
    match error {
        ReceiveError::TooLarge(limit) => {
            Fault::new(413, format!("The provided image is too large: an image may have at most {limit} bytes."))
        }
        ReceiveError::Full => Fault::new(413, "There is not enough disk space on the image storage media."),
        ReceiveError::Length { announced, received } => Fault::bad_request(format!(
            "The announced size of the image, {announced}, does not match the {received} bytes that were sent."
        )),
        ReceiveError::Sender(reason) => Fault::bad_request("The image data was cut off.").caused_by(reason),
        ReceiveError::Content(InspectError::Mismatch { declared, found }) => Fault::unsupported_media_type(format!(
            "Image content does not match disk_format: it is {found}, not {declared}."
        )),
        ReceiveError::Content(InspectError::Unsafe { format, reason }) => {
            Fault::unsupported_media_type(format!("The {format} image is not acceptable: {reason}."))
        }
        ReceiveError::Content(InspectError::Io(source)) | ReceiveError::Io(source) => {
            Fault::unavailable("The image cannot be stored at the moment.").caused_by(source)
        }
    }
}
