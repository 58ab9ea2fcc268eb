//! `[notifications]`, and oslo.messaging's sections about notifications and RabbitMQ.

use std::path::PathBuf;

use super::super::Multi;
use super::super::option::Default::Text;

section! {
    /// Nova's section. Its options choose the form, the topics and the content of notifications.
    Notifications = "notifications" from Nova {
        notification_format: String => here {
            default: Text("unversioned"), choices: &["unversioned", "versioned", "both"],
            help: "Form of notifications: the older payloads, those with object names and versions, or both.",
        }
        notify_on_state_change: Option<String> => here {
            choices: &["vm_state", "vm_and_task_state"],
            help: "`vm_state` sends instance.update when the vm_state of a server changes. `vm_and_task_state` sends \
                   it also when the task_state changes. Unset: never.",
        }
        default_level: String => runtime.notifications.level {
            choices: &["DEBUG", "INFO", "WARN", "ERROR", "CRITICAL"],
            help: "Priority of notifications that report no error.",
        }
        versioned_notifications_topics: Vec<String> => runtime.notifications.versioned_topics {
            help: "Topics of versioned notifications.",
        }
        bdms_in_notifications: bool => runtime.notifications.block_devices {
            help: "List a server's volumes in the payloads.",
        }
    }
}

section! {
    /// Where notifications go.
    OsloMessagingNotifications = "oslo_messaging_notifications" from Oslo {
        driver: Multi => here {
            default: Text(""),
            help: "How notifications are sent: `messagingv2` sends them to RabbitMQ with oslo's envelope, `messaging` without it. \
                   `log` writes them to the log, `noop` sends none. May be repeated. Unset: none are sent.",
        }
        transport_url: Option<String> => here {
            secret: true,
            help: "RabbitMQ for notifications, as rabbit://USER:PASSWORD@HOST:PORT,.../VHOST. Unset: [DEFAULT] transport_url.",
        }
        topics: Vec<String> => runtime.notifications.topics {
            help: "Topics of unversioned notifications.",
        }
    }
}

section! {
    /// The connection to RabbitMQ, which is used for notifications alone.
    OsloMessagingRabbit = "oslo_messaging_rabbit" from Oslo {
        amqp_durable_queues: bool => runtime.notifications.broker.durable {
            help: "Declare exchange and queues as durable, so that RabbitMQ keeps notifications over its own restart. Consumers \
                   must use the same value.",
        }
        amqp_auto_delete: bool => runtime.notifications.broker.auto_delete {
            help: "Let RabbitMQ delete exchange and queues that nobody uses any more.",
        }
        rabbit_quorum_queue: bool => runtime.notifications.broker.quorum {
            help: "Declare quorum queues, which a cluster of RabbitMQ replicates.",
        }
        ssl: bool => runtime.notifications.broker.tls {
            help: "Connect to RabbitMQ with TLS.",
        }
        ssl_ca_file: Option<PathBuf> => runtime.notifications.broker.ca {
            help: "File with the authority of RabbitMQ's certificate (PEM). Without it no certificate is accepted.",
        }
    }
}
