//! The arguments of `chronova adopt`.

use std::path::PathBuf;

use clap::Args;

use super::compare::CompareArgs;
use super::sources::AdoptionSource;

/// The default URI of libvirt on a host; `{host}` is the host's name.
pub const DEFAULT_URI: &str = "qemu+tls://{host}/system";

/// The default limit of the memory for rows, in MiB.
pub const DEFAULT_MAX_MEMORY: usize = 4096;

#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// Nova's configuration, which names the databases; repeated, for example for placement.conf.
    #[arg(long, value_name = "FILE")]
    pub nova_conf: Vec<PathBuf>,
    /// The dump or the address of nova_api (mysql://USER:PASSWORD@HOST/NAME, postgresql://...).
    #[arg(long, value_name = "FILE|URL", required_unless_present_any = ["undo", "nova_conf"])]
    pub api: Option<AdoptionSource>,
    /// The dump or the address of nova_cell0; otherwise the address in cell_mappings.
    #[arg(long, value_name = "FILE|URL")]
    pub cell0: Option<AdoptionSource>,
    /// The dump or the address of a cell, repeated for each cell; otherwise the addresses in cell_mappings.
    #[arg(long, value_name = "FILE|URL")]
    pub cell: Vec<AdoptionSource>,
    /// The dump or the address of placement.
    #[arg(long, value_name = "FILE|URL")]
    pub placement: Option<AdoptionSource>,
    /// The MiB of memory that the rows of live databases may take.
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_MAX_MEMORY)]
    pub max_memory: usize,
    /// Only report what would be adopted and what stands in the way.
    #[arg(long)]
    pub check: bool,
    /// The form of the report.
    #[arg(long, value_enum, default_value_t = ReportForm::Table)]
    pub output: ReportForm,
    /// The id of something to leave out (as the report shows it); repeated.
    #[arg(long, value_name = "ID")]
    pub leave_out: Vec<String>,
    /// Where libvirt is reached on a host; {host} is its name.
    #[arg(long, value_name = "TEMPLATE", default_value = DEFAULT_URI)]
    pub uri: String,
    /// Set the adopted log aside, so that Nova can go on. Refused if anybody changed something through Chronova.
    #[arg(long, conflicts_with_all = ["check", "dry_run", "nova_conf", "api", "cell0", "cell", "placement", "leave_out"])]
    pub undo: bool,
    #[command(flatten)]
    pub compare: CompareArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportForm {
    Table,
    Json,
}
