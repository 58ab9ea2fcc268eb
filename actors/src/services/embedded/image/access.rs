//! Selects the images of a caller's list, and gives the attributes of an image that policy rules may use.

use chronova_events::ids::ProjectId;
use chronova_events::image::{ImageRecord, MemberStatus, Visibility};
use chronova_projections::images::{is_visible, membership};

/// Selects the images of a list, before other filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageScope {
    /// `all`, a visibility, or empty.
    visibility: String,
    /// The status of the caller's membership; `None` means any.
    status: Option<MemberStatus>,
}

impl ImageScope {
    /// Reads Glance's parameters `visibility` and `member_status`.
    ///
    /// # Errors
    /// A parameter has an unknown value. The text is Glance's message.
    pub fn parse(visibility: Option<&str>, member_status: Option<&str>) -> Result<Self, String> {
        let visibility = visibility.unwrap_or_default();
        if !matches!(visibility, "" | "all") && Visibility::parse(visibility).is_none() {
            return Err(format!("Invalid visibility value: {visibility}"));
        }
        let status = match member_status.unwrap_or("accepted") {
            "all" => None,
            text => Some(MemberStatus::parse(text).ok_or_else(|| format!("Invalid status: {text}"))?),
        };
        Ok(Self { visibility: visibility.to_owned(), status })
    }

    /// Whether the list of a caller in `project` has the image.
    pub fn has(&self, image: &ImageRecord, project: Option<&ProjectId>, is_admin: bool) -> bool {
        if !is_visible(image, project, is_admin) {
            return false;
        }
        let own = project.is_some() && image.attributes.owner.as_ref() == project;
        match image.attributes.visibility {
            // Community images of other projects are listed only on request.
            Visibility::Community => own || matches!(self.visibility.as_str(), "community" | "all"),
            Visibility::Shared => own || is_admin || self.is_offered(image, project),
            Visibility::Public | Visibility::Private => true,
        }
    }

    /// Whether a shared image of another project is listed. By default, the caller's project must have accepted the
    /// image.
    fn is_offered(&self, image: &ImageRecord, project: Option<&ProjectId>) -> bool {
        membership(image, project).is_some_and(|status| self.status.is_none_or(|wanted| status == wanted))
    }
}

/// The attributes of an image that policy rules may use, for a caller in `project`.
pub fn attributes(image: &ImageRecord, project: Option<&ProjectId>) -> Vec<(&'static str, String)> {
    let owner = image.attributes.owner.as_ref().map_or("", ProjectId::as_str);
    let member = project.filter(|project| image.members.contains_key(*project));
    let all = [
        ("project_id", owner.to_owned()),
        ("owner", owner.to_owned()),
        ("image_id", image.id.to_string()),
        ("visibility", image.attributes.visibility.as_str().to_owned()),
    ];
    all.into_iter().chain(member.map(|member| ("member_id", member.as_str().to_owned()))).collect()
}
