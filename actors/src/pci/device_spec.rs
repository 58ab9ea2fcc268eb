//! `[pci] device_spec`: the devices that guests may get, and their tags.
//!
//! A device is named by `vendor_id` and `product_id`, and by `address`. The address is a text or an object. In a text,
//! `*` or an empty part matches any value (`*:0a:00.*`). An object has a regular expression for each part. The complete
//! address of a physical function also names its virtual functions. A device gets the tags of the first spec that names
//! it.

use chronova_events::pci::PciAddress;
use chronova_hypervisor::pci::PciDevice;
use regex::Regex;
use serde_json::Value;

use super::{JsonObject, nothing_left, objects, resource_class, take_flag, take_id, take_text, traits};

const KNOWN: &str = "vendor_id, product_id, address, physical_network, remote_managed, managed, resource_class, traits";

/// The upper bounds of the parts of an address: domain, bus, slot, function.
const PARTS: [(&str, u32); 4] = [("domain", 0xFFFF), ("bus", 0xFF), ("slot", 0x1F), ("function", 0x7)];

/// One entry of `device_spec`.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpec {
    vendor: Option<String>,
    product: Option<String>,
    address: AddressSpec,
    /// `Some(None)` for the value `null`: the devices are for ports without a physical network.
    pub network: Option<Option<String>>,
    pub remote_managed: bool,
    pub managed: bool,
    /// The resource class, in Placement's form.
    pub class: Option<String>,
    pub traits: Vec<String>,
}

#[derive(Debug, Clone)]
enum AddressSpec {
    /// The parts; `None` matches any value.
    Parts([Option<u32>; 4]),
    Patterns(Box<[Regex; 4]>),
}

impl PartialEq for AddressSpec {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Parts(one), Self::Parts(two)) => one == two,
            (Self::Patterns(one), Self::Patterns(two)) => {
                one.iter().zip(two.iter()).all(|(one, two)| one.as_str() == two.as_str())
            }
            _ => false,
        }
    }
}

impl DeviceSpec {
    /// Reads the values of the option: each is a JSON object or a list of objects.
    ///
    /// # Errors
    /// The value that cannot be read, and why.
    pub fn read_all(texts: &[String]) -> Result<Vec<Self>, String> {
        let mut specs = Vec::new();
        for text in texts {
            for object in objects(text, true)? {
                specs.push(Self::read(object).map_err(|reason| format!("{text}: {reason}"))?);
            }
        }
        Ok(specs)
    }

    fn read(mut object: JsonObject) -> Result<Self, String> {
        if object.contains_key("devname") {
            return Err("devname is not supported, because names of network devices change: write the address of the \
                        device"
                .to_owned());
        }
        if take_flag(&mut object, "live_migratable")? == Some(true) {
            return Err(
                "live_migratable is not supported: no server whose flavor requests PCI devices is migrated live"
                    .to_owned(),
            );
        }
        if take_flag(&mut object, "trusted")? == Some(true) {
            return Err(
                "trusted is not supported: nothing on the host sets the trust mode of a virtual function".to_owned()
            );
        }
        let network = match object.remove("physical_network") {
            None => None,
            Some(Value::Null) => Some(None),
            Some(Value::String(name)) => Some(Some(name)),
            Some(other) => return Err(format!("physical_network {other} is neither a text in quotes nor null")),
        };
        let spec = Self {
            vendor: take_id(&mut object, "vendor_id")?,
            product: take_id(&mut object, "product_id")?,
            address: AddressSpec::read(object.remove("address"))?,
            network,
            remote_managed: take_flag(&mut object, "remote_managed")?.unwrap_or(false),
            managed: take_flag(&mut object, "managed")?.unwrap_or(true),
            class: take_text(&mut object, "resource_class")?.map(|name| resource_class(&name)).transpose()?,
            traits: traits(take_text(&mut object, "traits")?)?,
        };
        nothing_left(&object, KNOWN)?;
        Ok(spec)
    }

    /// Whether the spec names the device.
    pub fn names(&self, device: &PciDevice) -> bool {
        let is = |wanted: &Option<String>, id: &str| wanted.as_deref().is_none_or(|wanted| wanted == id);
        is(&self.vendor, &device.vendor)
            && is(&self.product, &device.product)
            && (self.address.admits(device.address)
                || self.address.is_single() && device.parent.is_some_and(|parent| self.address.admits(parent)))
    }
}

impl AddressSpec {
    fn read(value: Option<Value>) -> Result<Self, String> {
        match value {
            None | Some(Value::Null) => Ok(Self::Parts([None; 4])),
            Some(Value::String(text)) => Self::glob(&text),
            Some(Value::Object(parts)) => Self::patterns(parts),
            Some(other) => Err(format!("address {other} is neither a text nor an object")),
        }
    }

    /// Parts may be left out from the front: `00.1` is any domain and bus, slot 0, function 1.
    fn glob(text: &str) -> Result<Self, String> {
        let (place, function) = text.split_once('.').unwrap_or((text, "*"));
        let mut fields: Vec<&str> = place.split(':').map(str::trim).collect();
        if fields.len() > 3 {
            return Err(format!("address {text:?} has more than domain, bus, slot and function"));
        }
        while fields.len() < 3 {
            fields.insert(0, "*");
        }
        fields.push(function.trim());
        let mut parts = [None; 4];
        for ((field, (name, most)), part) in fields.iter().zip(PARTS).zip(&mut parts) {
            if matches!(*field, "*" | "") {
                continue;
            }
            let number = u32::from_str_radix(field, 16)
                .map_err(|_| format!("address {text:?}: {name} {field:?} is not a hexadecimal number"))?;
            if number > most {
                return Err(format!("address {text:?}: {name} {field} is greater than the maximum {most:X}"));
            }
            *part = Some(number);
        }
        Ok(Self::Parts(parts))
    }

    fn patterns(mut object: JsonObject) -> Result<Self, String> {
        let mut texts = Vec::with_capacity(4);
        for (name, _) in PARTS {
            texts.push(take_text(&mut object, name)?.unwrap_or_else(|| ".*".to_owned()));
        }
        nothing_left(&object, "domain, bus, slot and function")?;
        // An object with a plain number for each part is a complete address, so it also names the virtual functions of
        // the device.
        if texts.iter().all(|text| !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit())) {
            return Self::glob(&format!("{}:{}:{}.{}", texts[0], texts[1], texts[2], texts[3]));
        }
        // As with Python's `re.match`, the expression must match at the beginning of the part.
        let read = |text: &String| {
            Regex::new(&format!("^(?:{text})")).map_err(|_| format!("address: {text:?} is no regular expression"))
        };
        let all: Vec<Regex> = texts.iter().map(read).collect::<Result<_, _>>()?;
        let all = <[Regex; 4]>::try_from(all).map_err(|_| "address: four parts are needed".to_owned())?;
        Ok(Self::Patterns(Box::new(all)))
    }

    fn is_single(&self) -> bool {
        matches!(self, Self::Parts(parts) if parts.iter().all(Option::is_some))
    }

    fn admits(&self, at: PciAddress) -> bool {
        match self {
            Self::Parts(parts) => {
                let has: [u32; 4] = [at.domain.into(), at.bus.into(), at.slot.into(), at.function.into()];
                parts.iter().zip(has).all(|(wanted, has)| wanted.is_none_or(|wanted| wanted == has))
            }
            Self::Patterns(patterns) => {
                let has = [
                    format!("{:04x}", at.domain),
                    format!("{:02x}", at.bus),
                    format!("{:02x}", at.slot),
                    format!("{:x}", at.function),
                ];
                patterns.iter().zip(&has).all(|(pattern, has)| pattern.is_match(has))
            }
        }
    }
}
