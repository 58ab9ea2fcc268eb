//! Finds the operations of a path.
//!
//! The router is a tree of segments. A literal segment takes precedence over a parameter. If the literal has no route
//! for the method, the parameter's routes are used. For example, `GET /servers/detail` is a listing, but `DELETE
//! /servers/detail` deletes the server with the id `detail`.

use std::collections::{BTreeMap, BTreeSet};

use crate::route::{BodySpec, Method, Route};
use crate::schema::{CompileError, Dialect, SchemaBands};
use crate::service::Service;

/// A route with the schemas of its body and of its query. Each schema is compiled at its first use.
#[derive(Debug)]
pub struct Operation {
    pub route: &'static Route,
    pub body: Option<SchemaBands>,
    pub query: Option<SchemaBands>,
}

#[derive(Debug, Default)]
struct RouteNode {
    literals: BTreeMap<&'static str, RouteNode>,
    name: Option<Box<RouteNode>>,
    /// `{name*}`: the rest of the path.
    rest: Vec<usize>,
    here: Vec<usize>,
}

/// The operations of one service.
#[derive(Debug)]
pub struct OperationRouter {
    operations: Vec<Operation>,
    root: RouteNode,
}

/// The match of a path and a method.
#[derive(Debug)]
pub enum RouteMatch<'a> {
    /// Operations that share method and path: their versions and actions differ.
    Operations {
        operations: Vec<&'a Operation>,
        values: Vec<String>,
    },
    /// The path exists with other methods.
    OtherMethods(BTreeSet<Method>),
    Nothing,
}

/// An invalid route table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operation {op}: {source}")]
pub struct TableError {
    pub op: &'static str,
    pub source: CompileError,
}

impl OperationRouter {
    pub fn new(service: Service, tables: &[&'static [Route]]) -> Self {
        let dialect = match service {
            Service::Compute | Service::Volume => Dialect::Nova,
            _ => Dialect::Plain,
        };
        let mut router = Self { operations: Vec::new(), root: RouteNode::default() };
        for route in tables.iter().copied().flatten() {
            let body = match route.body {
                BodySpec::Json(schema) => Some(SchemaBands::new(schema(), dialect)),
                BodySpec::None | BodySpec::AnyJson | BodySpec::Raw => None,
            };
            let query = route.query.map(|schema| SchemaBands::new(schema(), dialect));
            router.insert(Operation { route, body, query });
        }
        router
    }

    fn insert(&mut self, operation: Operation) {
        let index = self.operations.len();
        let mut node = &mut self.root;
        let mut takes_rest = false;
        for segment in segments(operation.route.path) {
            match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(name) if name.ends_with('*') => {
                    takes_rest = true;
                    break;
                }
                Some(_) => node = node.name.get_or_insert_default(),
                None => node = node.literals.entry(segment).or_default(),
            }
        }
        if takes_rest {
            node.rest.push(index);
        } else {
            node.here.push(index);
        }
        self.operations.push(operation);
    }

    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Compiles every schema of every version. Fails if a table has a mistake.
    pub fn compile_all(&self) -> Result<(), TableError> {
        for operation in &self.operations {
            for bands in [&operation.body, &operation.query].into_iter().flatten() {
                bands.compile_all().map_err(|source| TableError { op: operation.route.op, source })?;
            }
        }
        Ok(())
    }

    /// The operations at `path`, a list of decoded segments. An unknown method (`None`) finds no operations.
    pub fn find(&self, method: Option<Method>, path: &[String]) -> RouteMatch<'_> {
        let mut others = BTreeSet::new();
        let mut values = Vec::new();
        match self.walk(&self.root, method, path, &mut values, &mut others) {
            Some(operations) => RouteMatch::Operations { operations, values },
            None if others.is_empty() => RouteMatch::Nothing,
            None => RouteMatch::OtherMethods(others),
        }
    }

    fn walk(
        &self,
        node: &RouteNode,
        method: Option<Method>,
        path: &[String],
        values: &mut Vec<String>,
        others: &mut BTreeSet<Method>,
    ) -> Option<Vec<&Operation>> {
        let Some((segment, rest)) = path.split_first() else {
            return self.with_method(&node.here, method, others);
        };
        if let Some(next) = node.literals.get(segment.as_str())
            && let Some(found) = self.walk(next, method, rest, values, others)
        {
            return Some(found);
        }
        if let Some(next) = &node.name
            && !segment.is_empty()
        {
            values.push(segment.clone());
            if let Some(found) = self.walk(next, method, rest, values, others) {
                return Some(found);
            }
            values.pop();
        }
        let found = self.with_method(&node.rest, method, others)?;
        values.push(path.join("/"));
        Some(found)
    }

    fn with_method(
        &self,
        at: &[usize],
        method: Option<Method>,
        others: &mut BTreeSet<Method>,
    ) -> Option<Vec<&Operation>> {
        let all = || at.iter().filter_map(|index| self.operations.get(*index));
        let of = |method: Option<Method>| all().filter(|o| Some(o.route.method) == method).collect::<Vec<_>>();
        let mut found = of(method);
        // HEAD is GET without the body, unless the path has a HEAD route.
        if found.is_empty() && method == Some(Method::Head) {
            found = of(Some(Method::Get));
        }
        if found.is_empty() {
            others.extend(all().map(|operation| operation.route.method));
            return None;
        }
        Some(found)
    }
}

/// The names in a route's path with their values, in order.
pub fn bind(route: &'static Route, values: &[String]) -> Vec<(&'static str, String)> {
    segments(route.path)
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| name.trim_end_matches('*'))
        .zip(values.iter().cloned())
        .collect()
}

fn segments(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctx::Ctx;
    use crate::fault::Fault;
    use crate::handler;
    use crate::reply::Reply;
    use crate::route::{delete, get, post};

    #[allow(clippy::unused_async, reason = "handlers are async")]
    async fn nothing(_: Ctx) -> Result<Reply, Fault> {
        Ok(Reply::empty(204))
    }

    const TABLE: &[Route] = &[
        get("servers.index", "/servers", handler!(nothing)),
        get("servers.detail", "/servers/detail", handler!(nothing)),
        get("servers.show", "/servers/{id}", handler!(nothing)),
        delete("servers.delete", "/servers/{id}", handler!(nothing)),
        get("ips.show", "/servers/{server_id}/ips/{label}", handler!(nothing)),
        post("files.put", "/files/{path*}", handler!(nothing)),
    ];

    fn find(method: Method, path: &str) -> String {
        let router = OperationRouter::new(Service::Compute, &[TABLE]);
        let path: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(str::to_owned).collect();
        match router.find(Some(method), &path) {
            RouteMatch::Operations { operations, values } => {
                let bound = bind(operations[0].route, &values);
                format!("{} {bound:?}", operations[0].route.op)
            }
            RouteMatch::OtherMethods(methods) => format!("{methods:?}"),
            RouteMatch::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn finds() {
        assert_eq!(find(Method::Get, "/servers/detail"), "servers.detail []");
        assert_eq!(find(Method::Delete, "/servers/detail"), r#"servers.delete [("id", "detail")]"#);
        assert_eq!(find(Method::Head, "/servers"), "servers.index []");
        assert_eq!(find(Method::Get, "/servers/a/ips/b"), r#"ips.show [("server_id", "a"), ("label", "b")]"#);
        assert_eq!(find(Method::Put, "/servers"), "{Get}");
        assert_eq!(find(Method::Post, "/files/a/b"), r#"files.put [("path", "a/b")]"#);
        assert_eq!(find(Method::Get, "/flavors"), "nothing");
    }
}
