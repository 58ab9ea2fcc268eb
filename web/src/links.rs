//! The URLs in replies, built from the address that the client used.

use serde_json::{Value, json};

use crate::query::{Query, percent_encode};

/// The address that the request came to, for links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// `http://host:port`
    pub host: String,
    /// The service's root: `http://host:port/compute` on the common port, `http://host:8774` on a port of its own.
    pub root: String,
    /// The API's root: `http://host:port/compute/v2.1`.
    pub api: String,
    /// The project in the request's path (`/v2.1/{project_id}/servers`). Links then name it, too.
    pub project: Option<String>,
    /// The path of the request, without the query string.
    pub path: String,
}

impl Links {
    /// Nova's `self`: `{api}/[project/]collection/id`.
    pub fn to_self(&self, collection: &str, id: &str) -> String {
        self.join(&self.api, collection, id)
    }

    /// Nova's `bookmark`: `{root}/[project/]collection/id`.
    pub fn bookmark(&self, collection: &str, id: &str) -> String {
        self.join(&self.root, collection, id)
    }

    /// `[{"rel": "self"}, {"rel": "bookmark"}]`, as Nova writes them.
    pub fn pair(&self, collection: &str, id: &str) -> Value {
        json!([
            {"rel": "self", "href": self.to_self(collection, id)},
            {"rel": "bookmark", "href": self.bookmark(collection, id)},
        ])
    }

    /// The address of the next page: this request's query with another `marker`.
    pub fn next(&self, collection: &str, query: &Query, marker: &str) -> String {
        let mut pairs: Vec<(&str, &str)> = query
            .pairs()
            .iter()
            .filter(|(key, _)| key != "marker")
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        pairs.push(("marker", marker));
        format!("{}?{}", self.join(&self.api, collection, ""), Query::encode(pairs))
    }

    fn join(&self, base: &str, collection: &str, id: &str) -> String {
        let mut url = base.trim_end_matches('/').to_owned();
        if let Some(project) = &self.project {
            url.push('/');
            percent_encode(project, &mut url);
        }
        url.push('/');
        url.push_str(collection);
        if !id.is_empty() {
            url.push('/');
            percent_encode(id, &mut url);
        }
        url
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn names_the_project_only_where_the_request_did() {
        let mut links = Links {
            host: "http://h:1".into(),
            root: "http://h:1/compute".into(),
            api: "http://h:1/compute/v2.1".into(),
            project: None,
            path: String::new(),
        };
        assert_eq!(links.to_self("servers", "x"), "http://h:1/compute/v2.1/servers/x");
        assert_eq!(links.bookmark("servers", "x"), "http://h:1/compute/servers/x");
        links.project = Some("p".into());
        let query = Query::parse("limit=2&marker=a").unwrap();
        assert_eq!(
            links.next("servers/detail", &query, "b"),
            "http://h:1/compute/v2.1/p/servers/detail?limit=2&marker=b"
        );
    }
}
