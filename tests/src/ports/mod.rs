//! Conformance suites of the ports to the identity, image, network and volume services: one per trait.
//!
//! A suite is a list of cases, each a function of the trait object and a stage. The stage creates the resources of a
//! case (a project, a network, a group) through the service itself, not through the port. Each service, embedded or
//! real, runs the suites of its ports; only [`network_resources`] is not run on Neutron. The error of a case names the
//! broken promise.

pub mod broken_identity;
pub mod broken_image_resources;
pub mod broken_images;
pub mod broken_network_resources;
pub mod broken_networks;
pub mod broken_volumes;
pub mod embedded_identity;
pub mod embedded_images;
pub mod embedded_networks;
pub mod embedded_volumes;
pub mod identity;
pub mod image_resources;
pub mod images;
pub mod network_resources;
pub mod networks;
pub mod real_cinder;
pub mod real_glance;
pub mod real_keystone;
pub mod real_neutron;
pub mod volumes;

/// Fails the case with this message unless the condition holds.
macro_rules! promise {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            anyhow::bail!($($text)+);
        }
    };
}
pub(crate) use promise;
