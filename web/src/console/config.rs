//! The enabled consoles, and the addresses under which clients reach them.

use std::path::PathBuf;

use super::vnc_security::VncSecurity;

/// The options of Nova's `[vnc]`, `[spice]`, `[serial_console]`, `[console]` and `[consoleauth]` that the API needs.
#[derive(Debug, Clone)]
pub struct ConsoleConfig {
    /// `[vnc] enabled`
    pub vnc: bool,
    /// `[vnc] novncproxy_base_url`
    pub novnc_url: String,
    /// `[vnc] auth_schemes` and the files of VeNCrypt.
    pub vnc_security: VncSecurity,
    /// `[spice] enabled`
    pub spice: bool,
    /// `[spice] html5proxy_base_url`
    pub spice_html5_url: String,
    /// `[spice] spice_direct_proxy_base_url`
    pub spice_direct_url: String,
    /// `[serial_console] enabled`
    pub serial: bool,
    /// `[serial_console] base_url`
    pub serial_url: String,
    /// `[consoleauth] token_ttl`, seconds.
    pub token_ttl: u32,
    /// `[console] allowed_origins`
    pub allowed_origins: Vec<String>,
    /// `[DEFAULT] web`: the folder of the viewers.
    pub pages: PathBuf,
    /// `[DEFAULT] record`: the beginning of the names of files that record consoles.
    pub record: Option<PathBuf>,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self {
            vnc: true,
            novnc_url: "http://127.0.0.1:6080/vnc_auto.html".to_owned(),
            vnc_security: VncSecurity::default(),
            spice: false,
            spice_html5_url: "http://127.0.0.1:6082/spice_auto.html".to_owned(),
            spice_direct_url: "http://127.0.0.1:13002/nova".to_owned(),
            serial: false,
            serial_url: "ws://127.0.0.1:6083/".to_owned(),
            token_ttl: 600,
            allowed_origins: Vec::new(),
            pages: "/usr/share/spice-html5".into(),
            record: None,
        }
    }
}

impl ConsoleConfig {
    /// The path of the SPICE page, if this process should serve the page and the folder of the viewers lacks it. The
    /// VNC page is never missing, because the dashboard has its own.
    pub fn missing_viewer(&self) -> Option<PathBuf> {
        let ours = self.spice && self.spice_html5_url.contains("/console/spice_auto.html");
        ours.then(|| self.pages.join("spice_auto.html")).filter(|page| !page.is_file())
    }

    /// The configured base URL for a kind of console.
    pub fn url(&self, kind: &str) -> &str {
        match kind {
            "novnc" => &self.novnc_url,
            "serial" => &self.serial_url,
            "spice-direct" => &self.spice_direct_url,
            _ => &self.spice_html5_url,
        }
    }
}
