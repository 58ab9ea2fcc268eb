//! The addresses of Nova's databases, from its configuration and its list of cells.

use std::path::{Path, PathBuf};

use super::address::{BadAddress, filled};
use super::rows::NovaRow;
use crate::config::ini::{self, IniAssignment};
use crate::config::substitute::substitute;

/// The `connection` options of Nova's and Placement's configuration.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NovaConnections {
    /// `[api_database] connection`
    pub api: Option<String>,
    /// `[database] connection`: the default for templates in `cell_mappings`.
    pub cell: Option<String>,
    /// `[placement_database] connection`
    pub placement: Option<String>,
    /// `[database] connection_parameters`: Nova appends them to the address of each cell. `api` and `placement` already
    /// have the parameters of their sections.
    pub cell_parameters: Option<String>,
}

/// Shows which addresses there are; each has a password.
impl std::fmt::Debug for NovaConnections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (api, cell, placement) = (self.api.is_some(), self.cell.is_some(), self.placement.is_some());
        f.debug_struct("NovaConnections")
            .field("api", &api)
            .field("cell", &cell)
            .field("placement", &placement)
            .finish_non_exhaustive()
    }
}

/// The UUID of cell 0 in `cell_mappings`.
pub const CELL0: &str = "00000000-0000-0000-0000-000000000000";

impl NovaConnections {
    /// Reads the files. As in Nova, a later value wins.
    ///
    /// # Errors
    /// A file cannot be read, or a value refers to an unusable value. The message has no values.
    pub fn read(files: &[PathBuf]) -> Result<Self, String> {
        let mut all = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            all.extend(ini::parse(&text, Path::new(file)).entries);
        }
        let whole = |section: &str| -> Result<Option<String>, String> {
            let parameters = value(&all, section, PARAMETERS)?;
            let connection = value(&all, section, "connection")?;
            Ok(connection.map(|address| with_parameters(address, parameters.as_deref())))
        };
        Ok(Self {
            api: whole("api_database")?,
            // Templates of cells take their parts from the address without the parameters.
            cell: value(&all, "database", "connection")?,
            placement: whole("placement_database")?,
            cell_parameters: value(&all, "database", PARAMETERS)?,
        })
    }
}

const PARAMETERS: &str = "connection_parameters";

/// Appends `connection_parameters` to an address. As in Nova, they win over options of the same name in the address.
fn with_parameters(address: String, parameters: Option<&str>) -> String {
    match parameters.map(|text| text.trim_start_matches(['?', '&'])).filter(|text| !text.is_empty()) {
        None => address,
        Some(parameters) => format!("{address}{}{parameters}", if address.contains('?') { '&' } else { '?' }),
    }
}

fn found<'a>(all: &'a [IniAssignment], section: &str, key: &str) -> Option<&'a str> {
    let of = |entry: &&IniAssignment| entry.section == section && entry.key == key;
    all.iter().rev().find(of).map(|entry| entry.value.as_str()).filter(|value| !value.is_empty())
}

fn value(all: &[IniAssignment], section: &str, key: &str) -> Result<Option<String>, String> {
    let mut look = |section: &str, key: &str| Ok(found(all, section, key).map(str::to_owned));
    found(all, section, key).map(|text| substitute(text, section, &mut look)).transpose()
}

/// The addresses of the cells.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CellAddresses {
    pub cell0: Option<String>,
    /// In the order of `cell_mappings`.
    pub cells: Vec<String>,
}

impl std::fmt::Debug for CellAddresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellAddresses").field("cells", &self.cells.len()).finish_non_exhaustive()
    }
}

/// Reads the addresses in the rows of `cell_mappings`, with the configuration of Nova.
///
/// # Errors
/// The address of a cell cannot be used. The error has the name of the cell and the reason.
pub fn cells<'a>(
    rows: impl Iterator<Item = NovaRow<'a>>,
    known: &NovaConnections,
) -> Result<CellAddresses, (String, BadAddress)> {
    let mut found = CellAddresses::default();
    for row in rows {
        let name = row.text("name").unwrap_or("a cell without a name").to_owned();
        let template = row.words("database_connection").ok_or((name.clone(), "it has no database_connection"))?;
        let address = filled(template, known.cell.as_deref()).map_err(|reason| (name, reason))?;
        let address = with_parameters(address, known.cell_parameters.as_deref());
        match row.text("uuid") {
            Some(CELL0) => found.cell0 = Some(address),
            _ => found.cells.push(address),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::nova::rows::NovaTable;

    #[test]
    fn later_files_win_and_references_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let nova = file(
            "nova.conf",
            "[DEFAULT]\nmy_ip = 10.0.0.1\n[api_database]\nconnection = mysql://n:p$$w@$my_ip/nova_api\n\
             connection_parameters = ssl_ca=/etc/ca.pem\n\
             [database]\nconnection = mysql://old/nova\n",
        );
        let placement = file(
            "placement.conf",
            "[placement_database]\nconnection = mysql://p/placement?charset=utf8\nconnection_parameters = &ssl_ca=x\n\
             [database]\nconnection = mysql://new/nova\nconnection_parameters = charset=utf8\n",
        );
        let read = NovaConnections::read(&[nova, placement]).unwrap();
        assert_eq!(read.api.as_deref(), Some("mysql://n:p$w@10.0.0.1/nova_api?ssl_ca=/etc/ca.pem"));
        assert_eq!(read.cell.as_deref(), Some("mysql://new/nova"));
        assert_eq!(read.cell_parameters.as_deref(), Some("charset=utf8"));
        assert_eq!(read.placement.as_deref(), Some("mysql://p/placement?charset=utf8&ssl_ca=x"));
        let error = NovaConnections::read(&[folder.path().join("none.conf")]).unwrap_err();
        assert!(error.contains("none.conf"), "{error}");
    }

    #[test]
    fn cells_are_found_by_their_uuids() {
        let row = |uuid: &str, name: &str, url: Option<&str>| {
            vec![Some(uuid.to_owned()), Some(name.to_owned()), url.map(str::to_owned)]
        };
        let columns = ["uuid", "name", "database_connection"].map(str::to_owned).to_vec();
        let rows = vec![
            row(CELL0, "cell0", Some("{scheme}://{hostname}/nova_cell0")),
            row("52e802c2-a731-45eb-94bc-fae0d781e65c", "cell1", Some("mysql://c1/nova")),
        ];
        let table = NovaTable { columns: columns.clone(), rows };
        let known = NovaConnections {
            cell: Some("mysql+pymysql://db/nova".to_owned()),
            cell_parameters: Some("ssl_ca=ca".to_owned()),
            ..NovaConnections::default()
        };
        let found = cells(table.rows("cell_mappings"), &known).ok().unwrap();
        assert_eq!(found.cell0.as_deref(), Some("mysql+pymysql://db/nova_cell0?ssl_ca=ca"));
        assert_eq!(found.cells, ["mysql://c1/nova?ssl_ca=ca"]);
        let without = NovaTable { columns, rows: vec![row(CELL0, "cell0", None)] };
        assert_eq!(cells(without.rows("cell_mappings"), &NovaConnections::default()).err().unwrap().0, "cell0");
    }
}
