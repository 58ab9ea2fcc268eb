//! The sockets, cores and threads that a guest sees.
//!
//! The rules are those of Nova's `_get_desirable_cpu_topologies`. The topology within the limits that meets the most
//! wishes is chosen. Among topologies that meet equally many wishes, the topology with the fewest threads is chosen,
//! and among these the topology with the most sockets. A wish that the number of CPUs does not allow has no effect.
//!
//! Chronova adds one rule of Nova's documentation that Nova's code no longer has: a guest with NUMA nodes of equal size
//! gets a socket for each node, if no wish contradicts.

/// A number for each part of a topology, if one is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TopologyParts {
    sockets: Option<u32>,
    cores: Option<u32>,
    threads: Option<u32>,
}

/// The wishes and limits of a flavor and an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TopologyWish {
    wished: TopologyParts,
    most: TopologyParts,
    /// The number of NUMA nodes, if all of them have equally many CPUs. A socket must not span two nodes.
    nodes: Option<u32>,
}

impl TopologyWish {
    pub(super) fn parse<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let count = |name: String| get(&name).and_then(|value| value.trim().parse().ok()).filter(|n: &u32| *n > 0);
        // For each part, the flavor takes precedence over the image.
        let part = |name: &str| count(format!("hw:cpu_{name}")).or_else(|| count(format!("hw_cpu_{name}")));
        let nodes = count("hw:numa_nodes".to_owned()).or_else(|| count("hw_numa_nodes".to_owned()));
        let is_even = get("hw:numa_cpus.0").is_none() && get("hw_numa_cpus.0").is_none();
        Self {
            wished: TopologyParts { sockets: part("sockets"), cores: part("cores"), threads: part("threads") },
            most: TopologyParts {
                sockets: part("max_sockets"),
                cores: part("max_cores"),
                threads: part("max_threads"),
            },
            nodes: nodes.filter(|_| is_even),
        }
    }

    /// Sockets, cores and threads; their product is `vcpus`. If the limits allow no topology: one socket for each CPU.
    pub(super) fn best(self, vcpus: u32) -> (u32, u32, u32) {
        let allowed = |most: Option<u32>, part: u32| most.is_none_or(|most| part <= most);
        let met = |wish: Option<u32>, part: u32| u32::from(wish == Some(part));
        let divisors = |of: u32| (1..=of).filter(move |n| of.is_multiple_of(*n));
        let possible = divisors(vcpus)
            .flat_map(|threads| divisors(vcpus / threads).map(move |cores| (vcpus / threads / cores, cores, threads)));
        let within = possible.filter(|(sockets, cores, threads)| {
            allowed(self.most.sockets, *sockets)
                && allowed(self.most.cores, *cores)
                && allowed(self.most.threads, *threads)
        });
        let best = within.max_by_key(|(sockets, cores, threads)| {
            let wished = self.wished;
            let met = met(wished.sockets, *sockets) + met(wished.cores, *cores) + met(wished.threads, *threads);
            (met, self.nodes == Some(*sockets), sockets * cores, *sockets)
        });
        best.unwrap_or((vcpus, 1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(vcpus: u32, wishes: &[(&str, &str)]) -> (u32, u32, u32) {
        let get = |name: &str| wishes.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        TopologyWish::parse(get).best(vcpus)
    }

    #[test]
    fn limits_of_a_topology_are_kept() {
        assert_eq!(best(8, &[]), (8, 1, 1));
        assert_eq!(best(8, &[("hw:cpu_max_sockets", "2")]), (2, 4, 1), "at most two sockets");
        assert_eq!(best(8, &[("hw:cpu_max_sockets", "2"), ("hw:cpu_max_cores", "2")]), (2, 2, 2));
        assert_eq!(best(8, &[("hw_cpu_max_sockets", "1")]), (1, 8, 1), "an image's limits apply, too");
        assert_eq!(best(8, &[("hw:cpu_max_sockets", "4"), ("hw:cpu_threads", "2")]), (4, 1, 2));
        assert_eq!(best(7, &[("hw:cpu_max_sockets", "2")]), (1, 7, 1), "the product must be the number of CPUs");
    }

    #[test]
    fn a_guest_has_a_socket_for_each_of_its_nodes() {
        let two = ("hw:numa_nodes", "2");
        assert_eq!(best(8, &[two]), (2, 4, 1));
        assert_eq!(best(8, &[("hw_numa_nodes", "4")]), (4, 2, 1), "an image may choose the nodes");
        assert_eq!(best(4, &[("hw:numa_nodes", "1")]), (1, 4, 1));
        assert_eq!(best(8, &[two, ("hw:cpu_threads", "2")]), (2, 2, 2), "wishes that do not contradict are met, too");
        assert_eq!(best(8, &[two, ("hw:cpu_sockets", "4")]), (4, 2, 1), "a wish precedes the nodes");
        assert_eq!(best(8, &[two, ("hw:cpu_max_sockets", "1")]), (1, 8, 1), "a limit precedes the nodes");
        let unequal = [two, ("hw:numa_cpus.0", "0,1"), ("hw:numa_cpus.1", "2-5")];
        assert_eq!(best(6, &unequal), (6, 1, 1), "a socket would span two nodes");
    }
}
