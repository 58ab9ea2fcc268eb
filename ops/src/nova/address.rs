//! Addresses of databases as SQLAlchemy writes them: in `connection` of Nova's configuration, and in `cell_mappings`.
//!
//! `mysql+pymysql://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE`. The driver after `+` has no meaning here. No
//! message repeats an address, because it has a password.

use std::collections::BTreeMap;
use std::fmt;

/// The kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NovaEngine {
    MySql,
    Postgres,
}

/// The address of one database.
#[derive(Clone, PartialEq, Eq)]
pub struct NovaDatabaseAddress {
    pub engine: NovaEngine,
    pub user: Option<String>,
    pub password: Option<String>,
    /// A name or an IP address; an IPv6 address has no brackets.
    pub host: String,
    pub port: Option<u16>,
    pub database: String,
    pub options: BTreeMap<String, String>,
}

/// Shows everything but the password and the options, so that no log has a secret.
impl fmt::Display for NovaDatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = match self.engine {
            NovaEngine::MySql => "mysql",
            NovaEngine::Postgres => "postgresql",
        };
        write!(f, "{engine}://{}@{}", self.user.as_deref().unwrap_or_default(), self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "/{}", self.database)
    }
}

impl fmt::Debug for NovaDatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why an address cannot be used, without the address.
pub type BadAddress = &'static str;

/// Options of drivers. They do not change what is read.
const WITHOUT_EFFECT: &[&str] = &[
    "charset",
    "use_unicode",
    "binary_prefix",
    "sql_mode",
    "plugin",
    "autocommit",
    "connect_timeout",
    "read_timeout",
    "write_timeout",
    "client_encoding",
    "application_name",
];
const MYSQL_OPTIONS: &[&str] = &["unix_socket", "ssl_ca"];
const POSTGRES_OPTIONS: &[&str] = &["host", "sslmode", "sslrootcert"];

impl NovaDatabaseAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// It has another form, another engine, or an option that is not supported.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let (scheme, rest) = text.split_once("://").ok_or("it is no URL")?;
        let engine = match scheme.split('+').next() {
            Some("mysql" | "mariadb") => NovaEngine::MySql,
            Some("postgresql" | "postgres") => NovaEngine::Postgres,
            _ => return Err("only mysql:// and postgresql:// can be read"),
        };
        // As in SQLAlchemy, a password may have any character but `@`.
        let (account, rest) = match rest.split_once('@') {
            Some((account, rest)) if !account.split(':').next().unwrap_or_default().contains('/') => {
                (Some(account), rest)
            }
            _ => (None, rest),
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, database) = place.split_once('/').ok_or("it names no database")?;
        if database.is_empty() || database.contains('@') {
            return Err("it names no database: write an @ in the password as %40");
        }
        let (user, password) = match account.map(|account| account.split_once(':').unwrap_or((account, ""))) {
            None => (None, None),
            Some((user, password)) => (Some(decoded(user)), Some(decoded(password)).filter(|text| !text.is_empty())),
        };
        let (host, port) = host_and_port(place)?;
        let options = options(query, engine)?;
        Ok(Self { engine, user, password, host, port, database: decoded(database), options })
    }

    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), BadAddress> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.filter(|port| !port.is_empty()).map(|port| port.parse().map_err(|_| "its port is no number"));
    let host = if host.is_empty() { "localhost" } else { host };
    Ok((decoded(host), port.transpose()?))
}

/// Keeps the options that have a meaning here. Refuses other options, unless they change nothing that is read. A
/// connection that ignored an option could lack TLS, for example.
fn options(query: &str, engine: NovaEngine) -> Result<BTreeMap<String, String>, BadAddress> {
    let known = match engine {
        NovaEngine::MySql => MYSQL_OPTIONS,
        NovaEngine::Postgres => POSTGRES_OPTIONS,
    };
    let mut options = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if known.contains(&name) {
            options.insert(name.to_owned(), decoded(value));
        } else if !WITHOUT_EFFECT.contains(&name) {
            return Err("it has an option that is not supported; supported are unix_socket and ssl_ca (MySQL), and \
                        host, sslmode and sslrootcert (PostgreSQL)");
        }
    }
    Ok(options)
}

/// Undoes the percent encoding.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        let hex = (*first == b'%').then(|| more.get(..2).and_then(|hex| std::str::from_utf8(hex).ok())).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = more.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Percent-encodes everything that has a meaning in a URL.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let each = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(each).collect()
}

/// Fills a template of `cell_mappings` with the parts of `[database] connection`, as Nova does. The parts are
/// `{scheme}`, `{username}`, `{password}`, `{hostname}`, `{port}`, `{path}`, `{query}` and `{fragment}`. `{username1}`
/// and the like are for the first of several hosts.
///
/// # Errors
/// There is no address to fill the template with, or the template has an unknown name or a single brace.
pub fn filled(template: &str, default: Option<&str>) -> Result<String, BadAddress> {
    if !template.contains(['{', '}']) {
        return Ok(template.to_owned());
    }
    let parts = parts(default.ok_or("it is a template, and [database] connection is not known: give --nova-conf")?);
    let (mut out, mut rest) = (String::new(), template);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        // A doubled brace stands for itself.
        if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
            out.push_str(&from[..1]);
            rest = after;
            continue;
        }
        let named = from.strip_prefix('{').and_then(|from| from.split_once('}'));
        let (name, after) = named.ok_or("it is a template with a brace that has no partner")?;
        out.push_str(parts.get(name).ok_or("it is a template with a name that [database] connection does not have")?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The parts of a URL by their names in a template, still percent-encoded. Nova writes `None` for a part that is
/// missing.
fn parts(url: &str) -> BTreeMap<String, String> {
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let (netloc, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut parts: BTreeMap<String, String> =
        [("scheme", scheme), ("query", query), ("fragment", fragment), ("path", path.trim_start_matches('/'))]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    let several: Vec<&str> = netloc.split(',').collect();
    for (place, suffix) in std::iter::once((netloc, String::new()))
        .chain(several.iter().zip(1..).filter(|_| several.len() > 1).map(|(place, at)| (*place, at.to_string())))
    {
        let (account, host) = place.rsplit_once('@').map_or((None, place), |(account, host)| (Some(account), host));
        let (user, password) = account.map_or((None, None), |account| match account.split_once(':') {
            Some((user, password)) => (Some(user), Some(password)),
            None => (Some(account), None),
        });
        let (host, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port))),
        };
        for (name, value) in [("username", user), ("password", password), ("hostname", Some(host)), ("port", port)] {
            parts.insert(format!("{name}{suffix}"), value.unwrap_or("None").to_owned());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_of_both_engines_are_read_and_shown_without_their_password() {
        let read = NovaDatabaseAddress::parse("mysql+pymysql://no%40va:p%2Fw:@db:3307/nova_api?charset=utf8").unwrap();
        assert_eq!((read.user.as_deref(), read.password.as_deref()), (Some("no@va"), Some("p/w:")));
        assert_eq!((read.host.as_str(), read.port, read.database.as_str()), ("db", Some(3307), "nova_api"));
        assert_eq!(format!("{read} {read:?}"), "mysql://no@va@db:3307/nova_api mysql://no@va@db:3307/nova_api");
        let read = NovaDatabaseAddress::parse("postgresql+psycopg2://n@[fd00::1]/p?sslmode=require").unwrap();
        assert_eq!((read.engine, read.host.as_str(), read.port), (NovaEngine::Postgres, "fd00::1", None));
        assert_eq!((read.password.as_deref(), read.option("sslmode")), (None, Some("require")));
        for bad in ["nova", "sqlite:///nova.db", "mysql://h", "mysql://h/", "mysql://h:x/d", "mysql://h/d?ssl_key=k"] {
            assert!(NovaDatabaseAddress::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(encoded("a/b:c@ä"), "a%2Fb%3Ac%40%C3%A4");
    }

    #[test]
    fn a_template_takes_its_parts_from_the_default_address() {
        let default = Some("mysql+pymysql://nova:s%40c@db.local:3306/nova?charset=utf8");
        let template = "{scheme}://{username}:{password}@{hostname}:{port}/nova_cell0?{query}";
        let expected = "mysql+pymysql://nova:s%40c@db.local:3306/nova_cell0?charset=utf8";
        assert_eq!(filled(template, default).unwrap(), expected);
        assert_eq!(filled("{username2}@{hostname2}{{}}", Some("s://a:b@h1:1,c:d@h2:2/")).unwrap(), "c@h2{}");
        assert_eq!(filled("mysql://h/d", None).unwrap(), "mysql://h/d");
        assert!(filled(template, None).is_err());
        assert!(filled("{nothing}", default).is_err());
        assert!(filled("{scheme", default).is_err());
    }
}
