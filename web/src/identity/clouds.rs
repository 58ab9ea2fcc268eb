//! Makes the text of `clouds.yaml`, in which the `openstack` client finds this cloud.

use crate::secret::Secret;

/// The content of a `clouds.yaml` with the cloud `chronova`, for the administrator that the first start created. `base`
/// is `http://host:port`. The caller must write the file with mode 0600, because it holds the password.
pub fn clouds_yaml(base: &str, region: &str, password: &Secret) -> String {
    let base = base.trim_end_matches('/');
    format!(
        "clouds:\n  chronova:\n    auth:\n      auth_url: {}\n      username: admin\n      password: {}\n      \
         project_name: admin\n      user_domain_id: default\n      project_domain_id: default\n    \
         region_name: {}\n    identity_api_version: 3\n    interface: public\n",
        quoted(&format!("{base}/identity/v3")),
        quoted(password.expose()),
        quoted(region),
    )
}

/// A YAML double-quoted scalar. The JSON form of a text is such a scalar.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_what_yaml_would_misread() {
        let yaml = clouds_yaml("http://127.0.0.1:8774/", "RegionOne", &Secret::new("a\"b: #c\\"));
        assert!(yaml.contains("auth_url: \"http://127.0.0.1:8774/identity/v3\"\n"));
        assert!(yaml.contains("password: \"a\\\"b: #c\\\\\"\n"));
    }
}
