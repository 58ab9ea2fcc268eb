//! Options about the services beside Compute: which of them are called, and by which account.

use std::path::Path;

use chronova_actors::services::external::amqp::transport_url;

use super::super::account::{HasAccount as _, glance_trust};
use super::super::options::SECTIONS;
use super::super::{Config, Severity, derived};
use super::{Clash, error, place};

/// Checks `[service_user]`: the account whose token is sent beside a user's token to other services.
pub(super) fn service_user(config: &Config) -> Vec<Clash> {
    let (section, fields) = (&config.service_user, config.service_user.account());
    let at = |option| ("service_user", option);
    let problems: Vec<Clash> = [fields.complete().err(), fields.trust().err()]
        .into_iter()
        .flatten()
        .map(|problem| Clash { severity: Severity::Error, at: at(problem.option), message: problem.message.into() })
        .collect();
    if !problems.is_empty() {
        return problems;
    }
    let clash =
        |severity, option, message: &'static str| vec![Clash { severity, at: at(option), message: message.into() }];
    match (section.send_service_user_token, section.auth_url.is_some(), config.keystone_authtoken.auth_url.is_some()) {
        (true, false, _) => clash(
            Severity::Error,
            "send_service_user_token",
            "[service_user] send_service_user_token is on and the section has no account: set auth_url, auth_type, username, \
             password and the project of the account",
        ),
        (true, true, false) => clash(
            Severity::Warning,
            "send_service_user_token",
            "[service_user] send_service_user_token has no effect without [keystone_authtoken] auth_url: the embedded \
             services take no tokens of Keystone's",
        ),
        (false, true, _) => clash(
            Severity::Warning,
            "auth_url",
            "[service_user] has an account and send_service_user_token is off: long work fails once the user's token has \
             expired. Set send_service_user_token to true",
        ),
        _ => Vec::new(),
    }
}

/// Checks `[vendordata_dynamic_auth]`: the account that calls the services with vendor data.
pub(super) fn vendor_data(config: &Config) -> Vec<Clash> {
    const SECTION: &str = "vendordata_dynamic_auth";
    let (api, fields) = (&config.api, config.vendordata_dynamic_auth.account());
    let problems = [fields.complete().err(), fields.trust().err()];
    let mut clashes: Vec<Clash> = problems
        .into_iter()
        .flatten()
        .map(|problem| Clash {
            severity: Severity::Error,
            at: (SECTION, problem.option),
            message: problem.message.into(),
        })
        .collect();
    let calls = api.vendordata_providers.iter().any(|provider| provider == "DynamicJSON")
        && !api.vendordata_dynamic_targets.is_empty();
    if fields.auth_url.is_some() && !calls {
        clashes.push(Clash {
            severity: Severity::Warning,
            at: (SECTION, "auth_url"),
            message: "[vendordata_dynamic_auth] has no effect: no service is called for vendor data. Set [api] \
                      vendordata_dynamic_targets, and DynamicJSON among vendordata_providers"
                .into(),
        });
    }
    clashes
}

/// The longest name of an exchange or a topic, in bytes. AMQP allows 255 bytes for the name of a queue, which consists
/// of a topic, a dot and a priority.
const MAX_NAME: usize = 200;

/// Finds unknown drivers of notifications, names that are empty or too long for AMQP, and a transport URL that names no
/// usable message broker.
pub(super) fn notifications(config: &Config) -> Vec<Clash> {
    const DRIVER: (&str, &str) = ("oslo_messaging_notifications", "driver");
    let oslo = &config.oslo_messaging_notifications;
    let unknown = oslo.driver.0.iter().filter(|word| derived::notification_driver(word).is_err());
    let mut clashes: Vec<Clash> = unknown
        .map(|word| Clash {
            severity: Severity::Error,
            at: DRIVER,
            message: format!(
                "[oslo_messaging_notifications] driver: {word} is not supported; it is one of messagingv2, messaging, log and \
                 noop"
            )
            .into(),
        })
        .collect();
    let messaging = oslo.driver.0.iter().any(|word| matches!(word.trim(), "messagingv2" | "messaging"));
    let (at, url) = match (&oslo.transport_url, &config.default.transport_url) {
        (Some(url), _) => (("oslo_messaging_notifications", "transport_url"), url.as_str()),
        (None, Some(url)) => (("DEFAULT", "transport_url"), url.as_str()),
        (None, None) => (DRIVER, ""),
    };
    if messaging && let Err(reason) = transport_url::brokers(url, config.oslo_messaging_rabbit.ssl) {
        let message = match url {
            "" => "[oslo_messaging_notifications] driver sends to RabbitMQ, and no transport_url says where it is"
                .to_owned(),
            _ => format!("[{}] {} {reason}", at.0, at.1),
        };
        clashes.push(Clash { severity: Severity::Error, at, message: message.into() });
    }
    let names = [
        (("oslo_messaging_notifications", "topics"), oslo.topics.as_slice()),
        (("notifications", "versioned_notifications_topics"), &config.notifications.versioned_notifications_topics),
        (("DEFAULT", "control_exchange"), std::slice::from_ref(&config.default.control_exchange)),
    ];
    for (at, all) in names {
        if all.iter().any(|name| name.is_empty() || name.len() > MAX_NAME) {
            let message = format!("[{}] {}: a name in RabbitMQ has 1 to {MAX_NAME} bytes", at.0, at.1);
            clashes.push(Clash { severity: Severity::Error, at, message: message.into() });
        }
    }
    clashes
}

/// Whether images are in Glance.
fn has_glance(config: &Config) -> bool {
    let has_keystone = config.keystone_authtoken.auth_url.is_some() && config.api.auth_strategy != "noauth2";
    has_keystone && config.chronova.image_service != "embedded"
}

/// Checks the options of Glance, and tells which image service is in use.
pub(super) fn images(config: &Config) -> Vec<Clash> {
    const IMAGE_SERVICE: (&str, &str) = ("chronova", "image_service");
    if !has_glance(config) {
        let refused = "[chronova] image_service = glance needs a Keystone, which gives tokens for it: set [keystone_authtoken] \
                       auth_url, or image_service = embedded";
        return if config.chronova.image_service == "glance" {
            vec![error(IMAGE_SERVICE, refused)]
        } else {
            Vec::new()
        };
    }
    let section = &config.glance;
    let place = match (&section.endpoint_override, section.api_servers.as_slice()) {
        (Some(one), _) => one.clone(),
        (None, []) => format!("the {} endpoint of Keystone's catalogue", section.service_type),
        (None, all) => all.join(", "),
    };
    let vouched = match config.service_user.send_service_user_token {
        true => "",
        false => {
            ". [service_user] send_service_user_token is off, so a long snapshot fails once the user's token has expired"
        }
    };
    let told = format!(
        "[chronova] image_service: Glance at {place} is the image service. The embedded one is not served; [glance] \
         image_size_cap, image_count_total and image_property_quota have no effect{vouched}"
    );
    let mut clashes = vec![Clash { severity: Severity::Note, at: IMAGE_SERVICE, message: told.into() }];
    let bad = |address: &&String| !address.starts_with("http://") && !address.starts_with("https://");
    let addresses =
        [("endpoint_override", section.endpoint_override.as_slice()), ("api_servers", section.api_servers.as_slice())];
    for (option, all) in addresses {
        clashes.extend(all.iter().filter(bad).map(|address| Clash {
            severity: Severity::Error,
            at: ("glance", option),
            message: format!("[glance] {option}: {address} is no address; write it as http://controller:9292").into(),
        }));
    }
    let interfaces = ["public", "internal", "admin", "publicURL", "internalURL", "adminURL"];
    for name in section.valid_interfaces.iter().filter(|name| !interfaces.contains(&name.as_str())) {
        let message = format!("[glance] valid_interfaces: {name} is none of public, internal and admin").into();
        clashes.push(Clash { severity: Severity::Error, at: ("glance", "valid_interfaces"), message });
    }
    clashes.extend(glance_trust(section).err().map(|problem| Clash {
        severity: Severity::Error,
        at: ("glance", problem.option),
        message: problem.message.into(),
    }));
    clashes
}

/// Options of a Glance that is not used.
pub(super) fn unused_glance(config: &Config, texts: &[(&Path, &str)]) -> Vec<Clash> {
    if has_glance(config) {
        return Vec::new();
    }
    let is_of_client = |name: &str| {
        let of_service = ["image_", "verify_", "enable_", "default_", "unchecked_"];
        !of_service.iter().any(|prefix| name.starts_with(prefix))
    };
    let options = SECTIONS.iter().copied().flatten().filter(|def| def.section == "glance" && is_of_client(def.name));
    let set = options.map(|def| def.name).filter(|name| place(texts, ("glance", *name)).is_some());
    set.map(|name| Clash {
        severity: Severity::Warning,
        at: ("glance", name),
        message: format!(
            "[glance] {name} has no effect: images are those of the embedded image service, and no Glance is called. \
             [keystone_authtoken] auth_url and [chronova] image_service decide that"
        )
        .into(),
    })
    .collect()
}

/// Whether volumes are in Cinder.
fn has_cinder(config: &Config) -> bool {
    let has_keystone = config.keystone_authtoken.auth_url.is_some() && config.api.auth_strategy != "noauth2";
    has_keystone && config.chronova.volume_service != "embedded"
}

/// Where volumes are, and whether their service can be called.
pub(super) fn volumes(config: &Config) -> Vec<Clash> {
    const VOLUME_SERVICE: (&str, &str) = ("chronova", "volume_service");
    if !has_cinder(config) {
        let refused = "[chronova] volume_service = cinder needs a Keystone, which gives tokens for it: set [keystone_authtoken] \
                       auth_url, or volume_service = embedded";
        return match config.chronova.volume_service.as_str() {
            "cinder" => vec![error(VOLUME_SERVICE, refused)],
            _ => Vec::new(),
        };
    }
    let section = &config.cinder;
    let wrong = |option: &'static str, message: String| Clash {
        severity: Severity::Error,
        at: ("cinder", option),
        message: message.into(),
    };
    let mut clashes = Vec::new();
    let place = match &section.endpoint_template {
        Some(template) => template.clone(),
        None => format!("the endpoint {} of Keystone's catalogue", section.catalog_info),
    };
    let told =
        format!("[chronova] volume_service: Cinder at {place} is the volume service. The embedded one is not served");
    clashes.push(Clash { severity: Severity::Note, at: VOLUME_SERVICE, message: told.into() });
    if !config.service_user.send_service_user_token {
        let message = "[chronova] volume_service: Cinder lets only a service end an attachment that a server has, and \
                       [service_user] send_service_user_token is off: no volume can be detached. Set it to true";
        clashes.push(Clash { severity: Severity::Warning, at: VOLUME_SERVICE, message: message.into() });
    }
    if section.catalogue_entry().is_none() {
        let value = &section.catalog_info;
        let message = format!("[cinder] catalog_info: {value} is not TYPE:NAME:INTERFACE, as volumev3::publicURL");
        clashes.push(wrong("catalog_info", message));
    }
    if let Some(template) = section.endpoint_template.as_ref().filter(|url| !is_address(url)) {
        let message = format!(
            "[cinder] endpoint_template: {template} is no address; write it as http://controller:8776/v3/%(project_id)s"
        );
        clashes.push(wrong("endpoint_template", message));
    }
    let fields = section.account();
    let problems = [fields.complete().err(), fields.trust().err()];
    clashes.extend(problems.into_iter().flatten().map(|problem| wrong(problem.option, problem.message)));
    if !config.chronova.volume_listen.0.is_empty() {
        let message = "[chronova] volume_listen serves the embedded volume service, and volumes are in Cinder: take it out, or \
                       set volume_service = embedded";
        clashes.push(error(("chronova", "volume_listen"), message));
    }
    clashes
}

/// Whether an address is one of HTTP.
pub(super) fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Options about a Cinder that is not called.
pub(super) fn unused_cinder(config: &Config, texts: &[(&Path, &str)]) -> Vec<Clash> {
    if has_cinder(config) {
        return Vec::new();
    }
    let all = SECTIONS.iter().copied().flatten();
    let options = all.filter(|def| def.section == "cinder" && def.name != "cross_az_attach").map(|def| def.name);
    let set = options.filter(|name| place(texts, ("cinder", *name)).is_some());
    set.map(|name| Clash {
        severity: Severity::Warning,
        at: ("cinder", name),
        message: format!(
            "[cinder] {name} has no effect: volumes are those of the embedded volume service, and no Cinder is called. \
             [keystone_authtoken] auth_url and [chronova] volume_service decide that"
        )
        .into(),
    })
    .collect()
}
