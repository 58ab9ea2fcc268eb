/*M!999999\- enable the sandbox mode */ 

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

CREATE DATABASE /*!32312 IF NOT EXISTS*/ `nova` /*!40100 DEFAULT CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci */;

USE `nova`;
DROP TABLE IF EXISTS `agent_builds`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `agent_builds` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `hypervisor` varchar(255) DEFAULT NULL,
  `os` varchar(255) DEFAULT NULL,
  `architecture` varchar(255) DEFAULT NULL,
  `version` varchar(255) DEFAULT NULL,
  `url` varchar(255) DEFAULT NULL,
  `md5hash` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_agent_builds0hypervisor0os0architecture0deleted` (`hypervisor`,`os`,`architecture`,`deleted`),
  KEY `agent_builds_hypervisor_os_arch_idx` (`hypervisor`,`os`,`architecture`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `agent_builds` WRITE;
/*!40000 ALTER TABLE `agent_builds` DISABLE KEYS */;
/*!40000 ALTER TABLE `agent_builds` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `aggregate_hosts`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `aggregate_hosts` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `host` varchar(255) DEFAULT NULL,
  `aggregate_id` int(11) NOT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_aggregate_hosts0host0aggregate_id0deleted` (`host`,`aggregate_id`,`deleted`),
  KEY `aggregate_id` (`aggregate_id`),
  CONSTRAINT `aggregate_hosts_ibfk_1` FOREIGN KEY (`aggregate_id`) REFERENCES `aggregates` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `aggregate_hosts` WRITE;
/*!40000 ALTER TABLE `aggregate_hosts` DISABLE KEYS */;
/*!40000 ALTER TABLE `aggregate_hosts` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `aggregate_metadata`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `aggregate_metadata` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `aggregate_id` int(11) NOT NULL,
  `key` varchar(255) NOT NULL,
  `value` varchar(255) NOT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_aggregate_metadata0aggregate_id0key0deleted` (`aggregate_id`,`key`,`deleted`),
  KEY `aggregate_metadata_value_idx` (`value`),
  KEY `aggregate_metadata_key_idx` (`key`),
  CONSTRAINT `aggregate_metadata_ibfk_1` FOREIGN KEY (`aggregate_id`) REFERENCES `aggregates` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `aggregate_metadata` WRITE;
/*!40000 ALTER TABLE `aggregate_metadata` DISABLE KEYS */;
/*!40000 ALTER TABLE `aggregate_metadata` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `aggregates`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `aggregates` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `name` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `uuid` varchar(36) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `aggregate_uuid_idx` (`uuid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `aggregates` WRITE;
/*!40000 ALTER TABLE `aggregates` DISABLE KEYS */;
/*!40000 ALTER TABLE `aggregates` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `alembic_version`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `alembic_version` (
  `version_num` varchar(32) NOT NULL,
  PRIMARY KEY (`version_num`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `alembic_version` WRITE;
/*!40000 ALTER TABLE `alembic_version` DISABLE KEYS */;
INSERT INTO `alembic_version` VALUES
('ccb0fa1a2252');
/*!40000 ALTER TABLE `alembic_version` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `allocations`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `allocations` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `resource_provider_id` int(11) NOT NULL,
  `consumer_id` varchar(36) NOT NULL,
  `resource_class_id` int(11) NOT NULL,
  `used` int(11) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `allocations_consumer_id_idx` (`consumer_id`),
  KEY `allocations_resource_provider_class_used_idx` (`resource_provider_id`,`resource_class_id`,`used`),
  KEY `allocations_resource_class_id_idx` (`resource_class_id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `allocations` WRITE;
/*!40000 ALTER TABLE `allocations` DISABLE KEYS */;
/*!40000 ALTER TABLE `allocations` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `block_device_mapping`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `block_device_mapping` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `device_name` varchar(255) DEFAULT NULL,
  `delete_on_termination` tinyint(1) DEFAULT NULL,
  `snapshot_id` varchar(36) DEFAULT NULL,
  `volume_id` varchar(36) DEFAULT NULL,
  `volume_size` int(11) DEFAULT NULL,
  `no_device` tinyint(1) DEFAULT NULL,
  `connection_info` mediumtext DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `source_type` varchar(255) DEFAULT NULL,
  `destination_type` varchar(255) DEFAULT NULL,
  `guest_format` varchar(255) DEFAULT NULL,
  `device_type` varchar(255) DEFAULT NULL,
  `disk_bus` varchar(255) DEFAULT NULL,
  `boot_index` int(11) DEFAULT NULL,
  `image_id` varchar(36) DEFAULT NULL,
  `tag` varchar(255) DEFAULT NULL,
  `attachment_id` varchar(36) DEFAULT NULL,
  `uuid` varchar(36) DEFAULT NULL,
  `volume_type` varchar(255) DEFAULT NULL,
  `encrypted` tinyint(1) DEFAULT NULL,
  `encryption_secret_uuid` varchar(36) DEFAULT NULL,
  `encryption_format` varchar(128) DEFAULT NULL,
  `encryption_options` varchar(4096) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_block_device_mapping0uuid` (`uuid`),
  KEY `block_device_mapping_instance_uuid_volume_id_idx` (`instance_uuid`,`volume_id`),
  KEY `volume_id` (`volume_id`),
  KEY `block_device_mapping_instance_uuid_idx` (`instance_uuid`),
  KEY `snapshot_id` (`snapshot_id`),
  KEY `block_device_mapping_instance_uuid_device_name_idx` (`instance_uuid`,`device_name`),
  CONSTRAINT `block_device_mapping_instance_uuid_fkey` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `block_device_mapping` WRITE;
/*!40000 ALTER TABLE `block_device_mapping` DISABLE KEYS */;
INSERT INTO `block_device_mapping` VALUES
('2026-11-22 13:14:13','2026-11-22 13:14:14',NULL,1,'/dev/vda',1,NULL,NULL,NULL,0,NULL,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433',0,'image','local',NULL,'disk','virtio',0,'56e20d83-641e-47f3-a91e-69cc636e2354',NULL,NULL,'625433ca-cb03-4ab4-aaea-be677e5f1aa6',NULL,0,NULL,NULL,NULL),
('2026-11-22 13:14:29','2026-11-22 13:14:35',NULL,2,'/dev/vdb',0,NULL,'d3bd10b8-3f2f-4e5c-a1b5-a8f7fac13934',1,NULL,'{\"driver_volume_type\": \"rbd\", \"data\": {\"name\": \"volumes/volume-d3bd10b8-3f2f-4e5c-a1b5-a8f7fac13934\", \"hosts\": [\"10.230.0.1\"], \"ports\": [\"6789\"], \"cluster_name\": \"ceph\", \"auth_enabled\": true, \"auth_username\": \"cinder\", \"secret_type\": \"ceph\", \"secret_uuid\": \"8c671863-87c6-4764-b4e1-68c81a4ef679\", \"volume_id\": \"d3bd10b8-3f2f-4e5c-a1b5-a8f7fac13934\", \"discard\": true, \"qos_specs\": null, \"access_mode\": \"rw\", \"encrypted\": false, \"cacheable\": false}, \"status\": \"reserved\", \"instance\": \"e7ee3d45-92a9-43a3-9ab0-40bd8d075433\", \"attached_at\": \"\", \"detached_at\": \"\", \"volume_id\": \"d3bd10b8-3f2f-4e5c-a1b5-a8f7fac13934\", \"serial\": \"d3bd10b8-3f2f-4e5c-a1b5-a8f7fac13934\"}','e7ee3d45-92a9-43a3-9ab0-40bd8d075433',0,'volume','volume',NULL,NULL,NULL,NULL,NULL,'data','710f716b-3844-401e-bd04-c0f88e6aa5ee','351790b6-a727-4218-87d0-cfbc0428f58d',NULL,0,NULL,NULL,NULL),
('2026-11-22 13:14:35','2026-11-22 13:14:43',NULL,3,'/dev/vda',0,NULL,'c90154f2-4a7e-4221-a354-15e6a34b1be5',1,0,'{\"driver_volume_type\": \"rbd\", \"data\": {\"name\": \"volumes/volume-c90154f2-4a7e-4221-a354-15e6a34b1be5\", \"hosts\": [\"10.230.0.1\"], \"ports\": [\"6789\"], \"cluster_name\": \"ceph\", \"auth_enabled\": true, \"auth_username\": \"cinder\", \"secret_type\": \"ceph\", \"secret_uuid\": \"8c671863-87c6-4764-b4e1-68c81a4ef679\", \"volume_id\": \"c90154f2-4a7e-4221-a354-15e6a34b1be5\", \"discard\": true, \"qos_specs\": null, \"access_mode\": \"rw\", \"encrypted\": false, \"cacheable\": false}, \"status\": \"reserved\", \"instance\": \"44b43f74-d5b3-4298-9c19-639f27993b59\", \"attached_at\": \"\", \"detached_at\": \"\", \"volume_id\": \"c90154f2-4a7e-4221-a354-15e6a34b1be5\", \"serial\": \"c90154f2-4a7e-4221-a354-15e6a34b1be5\"}','44b43f74-d5b3-4298-9c19-639f27993b59',0,'volume','volume',NULL,'disk','virtio',0,NULL,NULL,'72276008-ec71-4be4-9a3d-6dc797a1695b','1fcfd13a-ec94-4dfe-8e06-698d2ea45914',NULL,0,NULL,NULL,NULL),
('2026-11-22 13:14:58','2026-11-22 13:15:01',NULL,4,'/dev/vda',1,NULL,NULL,NULL,0,NULL,'555e52b6-108a-4e4d-801e-af68c8d5923c',0,'image','local',NULL,'disk','virtio',0,'56e20d83-641e-47f3-a91e-69cc636e2354',NULL,NULL,'19014465-5766-4d79-8fc0-fa23c420ea87',NULL,0,NULL,NULL,NULL);
/*!40000 ALTER TABLE `block_device_mapping` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `bw_usage_cache`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `bw_usage_cache` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `start_period` datetime NOT NULL,
  `last_refreshed` datetime DEFAULT NULL,
  `bw_in` bigint(20) DEFAULT NULL,
  `bw_out` bigint(20) DEFAULT NULL,
  `mac` varchar(255) DEFAULT NULL,
  `uuid` varchar(36) DEFAULT NULL,
  `last_ctr_in` bigint(20) DEFAULT NULL,
  `last_ctr_out` bigint(20) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `bw_usage_cache_uuid_start_period_idx` (`uuid`,`start_period`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `bw_usage_cache` WRITE;
/*!40000 ALTER TABLE `bw_usage_cache` DISABLE KEYS */;
/*!40000 ALTER TABLE `bw_usage_cache` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `cells`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `cells` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `api_url` varchar(255) DEFAULT NULL,
  `weight_offset` float DEFAULT NULL,
  `weight_scale` float DEFAULT NULL,
  `name` varchar(255) DEFAULT NULL,
  `is_parent` tinyint(1) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `transport_url` varchar(255) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_cells0name0deleted` (`name`,`deleted`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `cells` WRITE;
/*!40000 ALTER TABLE `cells` DISABLE KEYS */;
/*!40000 ALTER TABLE `cells` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `certificates`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `certificates` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `user_id` varchar(255) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `file_name` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `certificates_project_id_deleted_idx` (`project_id`,`deleted`),
  KEY `certificates_user_id_deleted_idx` (`user_id`,`deleted`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `certificates` WRITE;
/*!40000 ALTER TABLE `certificates` DISABLE KEYS */;
/*!40000 ALTER TABLE `certificates` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `compute_nodes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `compute_nodes` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `service_id` int(11) DEFAULT NULL,
  `vcpus` int(11) NOT NULL,
  `memory_mb` int(11) NOT NULL,
  `local_gb` int(11) NOT NULL,
  `vcpus_used` int(11) NOT NULL,
  `memory_mb_used` int(11) NOT NULL,
  `local_gb_used` int(11) NOT NULL,
  `hypervisor_type` mediumtext NOT NULL,
  `hypervisor_version` int(11) NOT NULL,
  `cpu_info` mediumtext NOT NULL,
  `disk_available_least` int(11) DEFAULT NULL,
  `free_ram_mb` int(11) DEFAULT NULL,
  `free_disk_gb` int(11) DEFAULT NULL,
  `current_workload` int(11) DEFAULT NULL,
  `running_vms` int(11) DEFAULT NULL,
  `hypervisor_hostname` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `host_ip` varchar(39) DEFAULT NULL,
  `supported_instances` text DEFAULT NULL,
  `pci_stats` text DEFAULT NULL,
  `metrics` text DEFAULT NULL,
  `extra_resources` text DEFAULT NULL,
  `stats` text DEFAULT NULL,
  `numa_topology` text DEFAULT NULL,
  `host` varchar(255) DEFAULT NULL,
  `ram_allocation_ratio` float DEFAULT NULL,
  `cpu_allocation_ratio` float DEFAULT NULL,
  `uuid` varchar(36) DEFAULT NULL,
  `disk_allocation_ratio` float DEFAULT NULL,
  `mapped` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_compute_nodes0host0hypervisor_hostname0deleted` (`host`,`hypervisor_hostname`,`deleted`),
  UNIQUE KEY `compute_nodes_uuid_idx` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `compute_nodes` WRITE;
/*!40000 ALTER TABLE `compute_nodes` DISABLE KEYS */;
INSERT INTO `compute_nodes` VALUES
('2026-11-22 13:13:49','2026-11-22 13:15:54',NULL,1,NULL,2,17370,20,2,256,2,'QEMU',7002022,'{\"arch\": \"x86_64\", \"model\": \"kvm64\", \"vendor\": \"AMD\", \"topology\": {\"cells\": 1, \"sockets\": 1, \"cores\": 2, \"threads\": 1}, \"features\": [\"avx512vl\", \"fpu\", \"pdpe1gb\", \"movbe\", \"clflushopt\", \"sep\", \"cx8\", \"invpcid\", \"mmx\", \"hypervisor\", \"osvw\", \"avx512ifma\", \"pae\", \"tsc_adjust\", \"rdseed\", \"arat\", \"aes\", \"vme\", \"abm\", \"avx512vbmi2\", \"xsavec\", \"3dnowprefetch\", \"umip\", \"erms\", \"xsaves\", \"ht\", \"popcnt\", \"rdrand\", \"sse4.2\", \"ssse3\", \"fsrm\", \"msr\", \"avx512bitalg\", \"apic\", \"fma\", \"bmi2\", \"gfni\", \"avx512vnni\", \"avx512-vpopcntdq\", \"fxsr_opt\", \"pge\", \"smep\", \"pcid\", \"pse36\", \"adx\", \"xsaveopt\", \"nx\", \"xgetbv1\", \"avx512f\", \"xsave\", \"cmov\", \"vaes\", \"avx512-bf16\", \"xsaveerptr\", \"pse\", \"tsc-deadline\", \"mtrr\", \"misalignsse\", \"vpclmulqdq\", \"lm\", \"sse\", \"avx512bw\", \"topoext\", \"cmp_legacy\", \"sse2\", \"invtsc\", \"lahf_lm\", \"clzero\", \"clflush\", \"rdpid\", \"mca\", \"fsgsbase\", \"f16c\", \"clwb\", \"tsc\", \"pclmuldq\", \"fxsr\", \"syscall\", \"mmxext\", \"bmi1\", \"de\", \"pni\", \"sse4a\", \"sha-ni\", \"sse4.1\", \"avx2\", \"rdtscp\", \"avx\", \"smap\", \"cr8legacy\", \"cx16\", \"pat\", \"x2apic\", \"avx512cd\", \"avx512vbmi\", \"mce\", \"avx512dq\"]}',18,17114,18,0,2,'h1',0,'10.231.0.11','[[\"i686\", \"qemu\", \"hvm\"], [\"i686\", \"kvm\", \"hvm\"], [\"x86_64\", \"qemu\", \"hvm\"], [\"x86_64\", \"kvm\", \"hvm\"]]','{\"nova_object.name\": \"PciDevicePoolList\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"objects\": []}, \"nova_object.changes\": [\"objects\"]}','[]',NULL,'{\"failed_builds\": \"0\", \"num_instances\": \"2\", \"num_vm_active\": \"1\", \"num_task_None\": \"2\", \"num_os_type_None\": \"2\", \"num_proj_ee02ffde8ef44b7db84c30d757f084dc\": \"2\", \"io_workload\": \"0\", \"num_vm_stopped\": \"1\"}','{\"nova_object.name\": \"NUMATopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.2\", \"nova_object.data\": {\"cells\": [{\"nova_object.name\": \"NUMACell\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.5\", \"nova_object.data\": {\"id\": 0, \"cpuset\": [0, 1], \"pcpuset\": [0, 1], \"memory\": 17370, \"cpu_usage\": 0, \"memory_usage\": 0, \"pinned_cpus\": [], \"siblings\": [[0], [1]], \"mempages\": [{\"nova_object.name\": \"NUMAPagesTopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"size_kb\": 4, \"total\": 4446774, \"used\": 0, \"reserved\": 0}, \"nova_object.changes\": [\"reserved\", \"used\", \"size_kb\", \"total\"]}, {\"nova_object.name\": \"NUMAPagesTopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"size_kb\": 2048, \"total\": 0, \"used\": 0, \"reserved\": 0}, \"nova_object.changes\": [\"reserved\", \"used\", \"size_kb\", \"total\"]}, {\"nova_object.name\": \"NUMAPagesTopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"size_kb\": 1048576, \"total\": 0, \"used\": 0, \"reserved\": 0}, \"nova_object.changes\": [\"reserved\", \"used\", \"size_kb\", \"total\"]}], \"network_metadata\": {\"nova_object.name\": \"NetworkMetadata\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"physnets\": [], \"tunneled\": false}, \"nova_object.changes\": [\"tunneled\", \"physnets\"]}, \"socket\": 0}, \"nova_object.changes\": [\"pinned_cpus\", \"id\", \"mempages\", \"siblings\", \"network_metadata\", \"cpu_usage\", \"memory_usage\", \"memory\", \"cpuset\", \"socket\", \"pcpuset\"]}]}, \"nova_object.changes\": [\"cells\"]}','h1',1,8,'a261fc0e-0f9f-4de8-bba7-d4bf39a559a3',1,1),
('2026-11-22 13:13:49','2026-11-22 13:15:54',NULL,2,NULL,2,17370,20,1,192,0,'QEMU',7002022,'{\"arch\": \"x86_64\", \"model\": \"kvm64\", \"vendor\": \"AMD\", \"topology\": {\"cells\": 1, \"sockets\": 1, \"cores\": 2, \"threads\": 1}, \"features\": [\"avx512dq\", \"fpu\", \"pni\", \"osvw\", \"hypervisor\", \"fxsr_opt\", \"xgetbv1\", \"avx512vbmi\", \"bmi2\", \"abm\", \"aes\", \"ht\", \"pae\", \"cmp_legacy\", \"syscall\", \"f16c\", \"mtrr\", \"sep\", \"3dnowprefetch\", \"rdtscp\", \"tsc_adjust\", \"adx\", \"rdseed\", \"erms\", \"nx\", \"clwb\", \"vme\", \"sse\", \"vaes\", \"lahf_lm\", \"cx8\", \"sse4a\", \"cr8legacy\", \"vpclmulqdq\", \"clzero\", \"avx\", \"invpcid\", \"avx512vnni\", \"sse4.2\", \"rdpid\", \"avx512-bf16\", \"de\", \"sse4.1\", \"xsaveerptr\", \"rdrand\", \"pse36\", \"popcnt\", \"avx2\", \"fxsr\", \"mmx\", \"clflush\", \"pge\", \"avx512ifma\", \"avx512vl\", \"sse2\", \"cmov\", \"avx512bitalg\", \"mmxext\", \"xsaves\", \"smap\", \"mce\", \"fsgsbase\", \"avx512f\", \"mca\", \"ssse3\", \"avx512cd\", \"pat\", \"sha-ni\", \"x2apic\", \"pclmuldq\", \"avx512bw\", \"apic\", \"misalignsse\", \"pdpe1gb\", \"pse\", \"avx512-vpopcntdq\", \"topoext\", \"cx16\", \"avx512vbmi2\", \"gfni\", \"xsave\", \"xsavec\", \"xsaveopt\", \"bmi1\", \"umip\", \"clflushopt\", \"tsc-deadline\", \"msr\", \"movbe\", \"fma\", \"fsrm\", \"smep\", \"pcid\", \"arat\", \"tsc\", \"invtsc\", \"lm\"]}',18,17178,20,0,1,'h2',0,'10.231.0.12','[[\"i686\", \"qemu\", \"hvm\"], [\"i686\", \"kvm\", \"hvm\"], [\"x86_64\", \"qemu\", \"hvm\"], [\"x86_64\", \"kvm\", \"hvm\"]]','{\"nova_object.name\": \"PciDevicePoolList\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"objects\": []}, \"nova_object.changes\": [\"objects\"]}','[]',NULL,'{\"failed_builds\": \"0\", \"num_instances\": \"1\", \"num_vm_active\": \"1\", \"num_task_None\": \"1\", \"num_os_type_None\": \"1\", \"num_proj_ee02ffde8ef44b7db84c30d757f084dc\": \"1\", \"io_workload\": \"0\"}','{\"nova_object.name\": \"NUMATopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.2\", \"nova_object.data\": {\"cells\": [{\"nova_object.name\": \"NUMACell\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.5\", \"nova_object.data\": {\"id\": 0, \"cpuset\": [0, 1], \"pcpuset\": [0, 1], \"memory\": 17370, \"cpu_usage\": 0, \"memory_usage\": 0, \"pinned_cpus\": [], \"siblings\": [[0], [1]], \"mempages\": [{\"nova_object.name\": \"NUMAPagesTopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"size_kb\": 4, \"total\": 4446774, \"used\": 0, \"reserved\": 0}, \"nova_object.changes\": [\"reserved\", \"size_kb\", \"used\", \"total\"]}, {\"nova_object.name\": \"NUMAPagesTopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"size_kb\": 2048, \"total\": 0, \"used\": 0, \"reserved\": 0}, \"nova_object.changes\": [\"reserved\", \"size_kb\", \"used\", \"total\"]}, {\"nova_object.name\": \"NUMAPagesTopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"size_kb\": 1048576, \"total\": 0, \"used\": 0, \"reserved\": 0}, \"nova_object.changes\": [\"reserved\", \"size_kb\", \"used\", \"total\"]}], \"network_metadata\": {\"nova_object.name\": \"NetworkMetadata\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"physnets\": [], \"tunneled\": false}, \"nova_object.changes\": [\"physnets\", \"tunneled\"]}, \"socket\": 0}, \"nova_object.changes\": [\"cpuset\", \"network_metadata\", \"id\", \"socket\", \"pinned_cpus\", \"pcpuset\", \"siblings\", \"memory_usage\", \"cpu_usage\", \"memory\", \"mempages\"]}]}, \"nova_object.changes\": [\"cells\"]}','h2',1,8,'f5c502ad-8e91-4963-bdd0-d3ff5a0b3afc',1,1);
/*!40000 ALTER TABLE `compute_nodes` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `console_auth_tokens`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `console_auth_tokens` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `token_hash` varchar(255) NOT NULL,
  `console_type` varchar(255) NOT NULL,
  `host` varchar(255) NOT NULL,
  `port` int(11) NOT NULL,
  `internal_access_path` varchar(255) DEFAULT NULL,
  `instance_uuid` varchar(36) NOT NULL,
  `expires` int(11) NOT NULL,
  `access_url_base` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_console_auth_tokens0token_hash` (`token_hash`),
  KEY `console_auth_tokens_host_expires_idx` (`host`,`expires`),
  KEY `console_auth_tokens_token_hash_idx` (`token_hash`),
  KEY `console_auth_tokens_token_hash_instance_uuid_idx` (`token_hash`,`instance_uuid`),
  KEY `console_auth_tokens_instance_uuid_idx` (`instance_uuid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `console_auth_tokens` WRITE;
/*!40000 ALTER TABLE `console_auth_tokens` DISABLE KEYS */;
/*!40000 ALTER TABLE `console_auth_tokens` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `console_pools`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `console_pools` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `address` varchar(39) DEFAULT NULL,
  `username` varchar(255) DEFAULT NULL,
  `password` varchar(255) DEFAULT NULL,
  `console_type` varchar(255) DEFAULT NULL,
  `public_hostname` varchar(255) DEFAULT NULL,
  `host` varchar(255) DEFAULT NULL,
  `compute_host` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_console_pools0host0console_type0compute_host0deleted` (`host`,`console_type`,`compute_host`,`deleted`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `console_pools` WRITE;
/*!40000 ALTER TABLE `console_pools` DISABLE KEYS */;
/*!40000 ALTER TABLE `console_pools` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `consoles`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `consoles` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_name` varchar(255) DEFAULT NULL,
  `password` varchar(255) DEFAULT NULL,
  `port` int(11) DEFAULT NULL,
  `pool_id` int(11) DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `pool_id` (`pool_id`),
  KEY `consoles_instance_uuid_idx` (`instance_uuid`),
  CONSTRAINT `consoles_ibfk_1` FOREIGN KEY (`pool_id`) REFERENCES `console_pools` (`id`),
  CONSTRAINT `consoles_instance_uuid_fkey` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `consoles` WRITE;
/*!40000 ALTER TABLE `consoles` DISABLE KEYS */;
/*!40000 ALTER TABLE `consoles` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `dns_domains`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `dns_domains` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `deleted` tinyint(1) DEFAULT NULL,
  `domain` varchar(255) NOT NULL,
  `scope` varchar(255) DEFAULT NULL,
  `availability_zone` varchar(255) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`domain`),
  KEY `dns_domains_domain_deleted_idx` (`domain`,`deleted`),
  KEY `dns_domains_project_id_idx` (`project_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `dns_domains` WRITE;
/*!40000 ALTER TABLE `dns_domains` DISABLE KEYS */;
/*!40000 ALTER TABLE `dns_domains` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `fixed_ips`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `fixed_ips` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `address` varchar(39) DEFAULT NULL,
  `network_id` int(11) DEFAULT NULL,
  `allocated` tinyint(1) DEFAULT NULL,
  `leased` tinyint(1) DEFAULT NULL,
  `reserved` tinyint(1) DEFAULT NULL,
  `virtual_interface_id` int(11) DEFAULT NULL,
  `host` varchar(255) DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_fixed_ips0address0deleted` (`address`,`deleted`),
  KEY `network_id` (`network_id`),
  KEY `fixed_ips_virtual_interface_id_fkey` (`virtual_interface_id`),
  KEY `fixed_ips_instance_uuid_fkey` (`instance_uuid`),
  KEY `fixed_ips_deleted_allocated_updated_at_idx` (`deleted`,`allocated`,`updated_at`),
  KEY `fixed_ips_host_idx` (`host`),
  KEY `fixed_ips_network_id_host_deleted_idx` (`network_id`,`host`,`deleted`),
  KEY `fixed_ips_deleted_allocated_idx` (`address`,`deleted`,`allocated`),
  KEY `fixed_ips_address_reserved_network_id_deleted_idx` (`address`,`reserved`,`network_id`,`deleted`),
  KEY `address` (`address`),
  CONSTRAINT `fixed_ips_instance_uuid_fkey` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `fixed_ips` WRITE;
/*!40000 ALTER TABLE `fixed_ips` DISABLE KEYS */;
/*!40000 ALTER TABLE `fixed_ips` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `floating_ips`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `floating_ips` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `address` varchar(39) DEFAULT NULL,
  `fixed_ip_id` int(11) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `host` varchar(255) DEFAULT NULL,
  `auto_assigned` tinyint(1) DEFAULT NULL,
  `pool` varchar(255) DEFAULT NULL,
  `interface` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_floating_ips0address0deleted` (`address`,`deleted`),
  KEY `floating_ips_pool_deleted_fixed_ip_id_project_id_idx` (`pool`,`deleted`,`fixed_ip_id`,`project_id`),
  KEY `floating_ips_project_id_idx` (`project_id`),
  KEY `fixed_ip_id` (`fixed_ip_id`),
  KEY `floating_ips_host_idx` (`host`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `floating_ips` WRITE;
/*!40000 ALTER TABLE `floating_ips` DISABLE KEYS */;
/*!40000 ALTER TABLE `floating_ips` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_actions`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_actions` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `action` varchar(255) DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `request_id` varchar(255) DEFAULT NULL,
  `user_id` varchar(255) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `start_time` datetime DEFAULT NULL,
  `finish_time` datetime DEFAULT NULL,
  `message` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `instance_uuid_idx` (`instance_uuid`),
  KEY `instance_actions_instance_uuid_updated_at_idx` (`instance_uuid`,`updated_at`),
  KEY `request_id_idx` (`request_id`),
  CONSTRAINT `fk_instance_actions_instance_uuid` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=6 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_actions` WRITE;
/*!40000 ALTER TABLE `instance_actions` DISABLE KEYS */;
INSERT INTO `instance_actions` VALUES
('2026-11-22 13:14:13','2026-11-22 13:14:26',NULL,1,'create','e7ee3d45-92a9-43a3-9ab0-40bd8d075433','req-50a5be12-3cf5-4846-9eac-7e5febdc6013','dae8651f4040413689e07654e5ae7f85','ee02ffde8ef44b7db84c30d757f084dc','2026-11-22 13:14:09',NULL,NULL,0),
('2026-11-22 13:14:30','2026-11-22 13:14:35',NULL,2,'attach_volume','e7ee3d45-92a9-43a3-9ab0-40bd8d075433','req-8a001800-167f-438a-bb67-b5379b7c0009','dae8651f4040413689e07654e5ae7f85','ee02ffde8ef44b7db84c30d757f084dc','2026-11-22 13:14:29',NULL,NULL,0),
('2026-11-22 13:14:35','2026-11-22 13:14:53',NULL,3,'create','44b43f74-d5b3-4298-9c19-639f27993b59','req-cc0b7607-6d3c-4800-bf37-c15601b8c1e6','dae8651f4040413689e07654e5ae7f85','ee02ffde8ef44b7db84c30d757f084dc','2026-11-22 13:14:33',NULL,NULL,0),
('2026-11-22 13:14:58','2026-11-22 13:15:12',NULL,4,'create','555e52b6-108a-4e4d-801e-af68c8d5923c','req-efac490a-ad60-411d-b9e0-6584b3bb36f2','dae8651f4040413689e07654e5ae7f85','ee02ffde8ef44b7db84c30d757f084dc','2026-11-22 13:14:55',NULL,NULL,0),
('2026-11-22 13:15:14','2026-11-22 13:15:39',NULL,5,'stop','555e52b6-108a-4e4d-801e-af68c8d5923c','req-47fb31f9-f8c2-414f-af3a-ffd49e6d73c5','dae8651f4040413689e07654e5ae7f85','ee02ffde8ef44b7db84c30d757f084dc','2026-11-22 13:15:14',NULL,NULL,0);
/*!40000 ALTER TABLE `instance_actions` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_actions_events`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_actions_events` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `event` varchar(255) DEFAULT NULL,
  `action_id` int(11) DEFAULT NULL,
  `start_time` datetime DEFAULT NULL,
  `finish_time` datetime DEFAULT NULL,
  `result` varchar(255) DEFAULT NULL,
  `traceback` text DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `host` varchar(255) DEFAULT NULL,
  `details` text DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `action_id` (`action_id`),
  CONSTRAINT `instance_actions_events_ibfk_1` FOREIGN KEY (`action_id`) REFERENCES `instance_actions` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=6 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_actions_events` WRITE;
/*!40000 ALTER TABLE `instance_actions_events` DISABLE KEYS */;
INSERT INTO `instance_actions_events` VALUES
('2026-11-22 13:14:13','2026-11-22 13:14:26',NULL,1,'compute__do_build_and_run_instance',1,'2026-11-22 13:14:13','2026-11-22 13:14:26','Success',NULL,0,'h1',NULL),
('2026-11-22 13:14:30','2026-11-22 13:14:35',NULL,2,'compute_attach_volume',2,'2026-11-22 13:14:30','2026-11-22 13:14:35','Success',NULL,0,'h1',NULL),
('2026-11-22 13:14:35','2026-11-22 13:14:53',NULL,3,'compute__do_build_and_run_instance',3,'2026-11-22 13:14:35','2026-11-22 13:14:53','Success',NULL,0,'h2',NULL),
('2026-11-22 13:14:58','2026-11-22 13:15:12',NULL,4,'compute__do_build_and_run_instance',4,'2026-11-22 13:14:58','2026-11-22 13:15:12','Success',NULL,0,'h1',NULL),
('2026-11-22 13:15:14','2026-11-22 13:15:39',NULL,5,'compute_stop_instance',5,'2026-11-22 13:15:14','2026-11-22 13:15:39','Success',NULL,0,'h1',NULL);
/*!40000 ALTER TABLE `instance_actions_events` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_extra`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_extra` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_uuid` varchar(36) NOT NULL,
  `numa_topology` text DEFAULT NULL,
  `pci_requests` text DEFAULT NULL,
  `flavor` text DEFAULT NULL,
  `vcpu_model` text DEFAULT NULL,
  `migration_context` text DEFAULT NULL,
  `keypairs` text DEFAULT NULL,
  `device_metadata` text DEFAULT NULL,
  `trusted_certs` text DEFAULT NULL,
  `vpmems` text DEFAULT NULL,
  `resources` text DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `instance_extra_idx` (`instance_uuid`),
  CONSTRAINT `instance_extra_instance_uuid_fkey` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_extra` WRITE;
/*!40000 ALTER TABLE `instance_extra` DISABLE KEYS */;
INSERT INTO `instance_extra` VALUES
('2026-11-22 13:14:12','2026-11-22 13:14:35',NULL,0,1,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433',NULL,'[]','{\"cur\": {\"nova_object.name\": \"Flavor\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.2\", \"nova_object.data\": {\"id\": 1, \"name\": \"m1.nano\", \"memory_mb\": 128, \"vcpus\": 1, \"root_gb\": 1, \"ephemeral_gb\": 0, \"flavorid\": \"1\", \"swap\": 0, \"rxtx_factor\": 1.0, \"vcpu_weight\": 0, \"disabled\": false, \"is_public\": true, \"extra_specs\": {}, \"description\": null, \"created_at\": \"2026-11-22T13:14:05Z\", \"updated_at\": null, \"deleted_at\": null, \"deleted\": false}}, \"old\": null, \"new\": null}','{\"nova_object.name\": \"VirtCPUModel\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"arch\": null, \"vendor\": null, \"topology\": {\"nova_object.name\": \"VirtCPUTopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"sockets\": 1, \"cores\": 1, \"threads\": 1}, \"nova_object.changes\": [\"cores\", \"sockets\", \"threads\"]}, \"features\": [], \"mode\": null, \"model\": null, \"match\": \"exact\"}, \"nova_object.changes\": [\"match\", \"arch\", \"topology\", \"features\", \"vendor\", \"mode\", \"model\"]}',NULL,'{\"nova_object.name\": \"KeyPairList\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.3\", \"nova_object.data\": {\"objects\": [{\"nova_object.name\": \"KeyPair\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.4\", \"nova_object.data\": {\"id\": 1, \"name\": \"k1\", \"user_id\": \"dae8651f4040413689e07654e5ae7f85\", \"fingerprint\": \"aa:15:cd:d5:9e:4e:79:4c:b9:db:b1:bd:99:52:a9:9f\", \"public_key\": \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8Jm1c9rEwXhFQHLm0PTjP4zOv6Zr4qHh3Jv5oJYt0x test\", \"type\": \"ssh\", \"created_at\": \"2026-11-22T13:14:08Z\", \"updated_at\": null, \"deleted_at\": null, \"deleted\": false}}]}}','{\"nova_object.name\": \"InstanceDeviceMetadata\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"devices\": [{\"nova_object.name\": \"DiskMetadata\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"serial\": \"d3bd10b8-3f2f-4e5c-a1b5-a8f7fac13934\", \"bus\": {\"nova_object.name\": \"PCIDeviceBus\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"address\": \"0000:00:08.0\"}, \"nova_object.changes\": [\"address\"]}, \"tags\": [\"data\"]}, \"nova_object.changes\": [\"serial\", \"tags\", \"bus\"]}]}, \"nova_object.changes\": [\"devices\"]}',NULL,NULL,NULL),
('2026-11-22 13:14:35','2026-11-22 13:14:53',NULL,0,2,'44b43f74-d5b3-4298-9c19-639f27993b59',NULL,'[]','{\"cur\": {\"nova_object.name\": \"Flavor\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.2\", \"nova_object.data\": {\"id\": 2, \"name\": \"m1.micro\", \"memory_mb\": 192, \"vcpus\": 1, \"root_gb\": 1, \"ephemeral_gb\": 0, \"flavorid\": \"2\", \"swap\": 0, \"rxtx_factor\": 1.0, \"vcpu_weight\": 0, \"disabled\": false, \"is_public\": true, \"extra_specs\": {\"hw:cpu_sockets\": \"1\", \"hw_rng:allowed\": \"True\"}, \"description\": null, \"created_at\": \"2026-11-22T13:14:05Z\", \"updated_at\": null, \"deleted_at\": null, \"deleted\": false}, \"nova_object.changes\": [\"extra_specs\"]}, \"old\": null, \"new\": null}','{\"nova_object.name\": \"VirtCPUModel\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"arch\": null, \"vendor\": null, \"topology\": {\"nova_object.name\": \"VirtCPUTopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"sockets\": 1, \"cores\": 1, \"threads\": 1}, \"nova_object.changes\": [\"cores\", \"sockets\", \"threads\"]}, \"features\": [], \"mode\": null, \"model\": null, \"match\": \"exact\"}, \"nova_object.changes\": [\"match\", \"arch\", \"topology\", \"features\", \"vendor\", \"mode\", \"model\"]}',NULL,'{\"nova_object.name\": \"KeyPairList\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.3\", \"nova_object.data\": {\"objects\": []}}',NULL,NULL,NULL,NULL),
('2026-11-22 13:14:58','2026-11-22 13:15:39',NULL,0,3,'555e52b6-108a-4e4d-801e-af68c8d5923c',NULL,'[]','{\"cur\": {\"nova_object.name\": \"Flavor\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.2\", \"nova_object.data\": {\"id\": 1, \"name\": \"m1.nano\", \"memory_mb\": 128, \"vcpus\": 1, \"root_gb\": 1, \"ephemeral_gb\": 0, \"flavorid\": \"1\", \"swap\": 0, \"rxtx_factor\": 1.0, \"vcpu_weight\": 0, \"disabled\": false, \"is_public\": true, \"extra_specs\": {}, \"description\": null, \"created_at\": \"2026-11-22T13:14:05Z\", \"updated_at\": null, \"deleted_at\": null, \"deleted\": false}}, \"old\": null, \"new\": null}','{\"nova_object.name\": \"VirtCPUModel\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"arch\": null, \"vendor\": null, \"topology\": {\"nova_object.name\": \"VirtCPUTopology\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"sockets\": 1, \"cores\": 1, \"threads\": 1}, \"nova_object.changes\": [\"cores\", \"sockets\", \"threads\"]}, \"features\": [], \"mode\": null, \"model\": null, \"match\": \"exact\"}, \"nova_object.changes\": [\"match\", \"arch\", \"topology\", \"features\", \"vendor\", \"mode\", \"model\"]}',NULL,'{\"nova_object.name\": \"KeyPairList\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.3\", \"nova_object.data\": {\"objects\": []}}',NULL,NULL,NULL,NULL);
/*!40000 ALTER TABLE `instance_extra` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_faults`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_faults` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `code` int(11) NOT NULL,
  `message` varchar(255) DEFAULT NULL,
  `details` mediumtext DEFAULT NULL,
  `host` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `instance_faults_instance_uuid_deleted_created_at_idx` (`instance_uuid`,`deleted`,`created_at`),
  KEY `instance_faults_host_idx` (`host`),
  CONSTRAINT `fk_instance_faults_instance_uuid` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_faults` WRITE;
/*!40000 ALTER TABLE `instance_faults` DISABLE KEYS */;
/*!40000 ALTER TABLE `instance_faults` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_group_member`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_group_member` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_id` varchar(255) DEFAULT NULL,
  `group_id` int(11) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `group_id` (`group_id`),
  KEY `instance_group_member_instance_idx` (`instance_id`),
  CONSTRAINT `instance_group_member_ibfk_1` FOREIGN KEY (`group_id`) REFERENCES `instance_groups` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_group_member` WRITE;
/*!40000 ALTER TABLE `instance_group_member` DISABLE KEYS */;
/*!40000 ALTER TABLE `instance_group_member` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_group_policy`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_group_policy` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `policy` varchar(255) DEFAULT NULL,
  `group_id` int(11) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `group_id` (`group_id`),
  KEY `instance_group_policy_policy_idx` (`policy`),
  CONSTRAINT `instance_group_policy_ibfk_1` FOREIGN KEY (`group_id`) REFERENCES `instance_groups` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_group_policy` WRITE;
/*!40000 ALTER TABLE `instance_group_policy` DISABLE KEYS */;
/*!40000 ALTER TABLE `instance_group_policy` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_groups`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_groups` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `user_id` varchar(255) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `uuid` varchar(36) NOT NULL,
  `name` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_instance_groups0uuid0deleted` (`uuid`,`deleted`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_groups` WRITE;
/*!40000 ALTER TABLE `instance_groups` DISABLE KEYS */;
/*!40000 ALTER TABLE `instance_groups` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_id_mappings`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_id_mappings` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `uuid` varchar(36) NOT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_instance_id_mappings_uuid` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_id_mappings` WRITE;
/*!40000 ALTER TABLE `instance_id_mappings` DISABLE KEYS */;
INSERT INTO `instance_id_mappings` VALUES
('2026-11-22 13:14:12',NULL,NULL,1,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433',0),
('2026-11-22 13:14:35',NULL,NULL,2,'44b43f74-d5b3-4298-9c19-639f27993b59',0),
('2026-11-22 13:14:58',NULL,NULL,3,'555e52b6-108a-4e4d-801e-af68c8d5923c',0);
/*!40000 ALTER TABLE `instance_id_mappings` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_info_caches`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_info_caches` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `network_info` mediumtext DEFAULT NULL,
  `instance_uuid` varchar(36) NOT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_instance_info_caches0instance_uuid` (`instance_uuid`),
  CONSTRAINT `instance_info_caches_instance_uuid_fkey` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_info_caches` WRITE;
/*!40000 ALTER TABLE `instance_info_caches` DISABLE KEYS */;
INSERT INTO `instance_info_caches` VALUES
('2026-11-22 13:14:12','2026-11-22 13:14:48',NULL,1,'[{\"id\": \"6ef9ac2d-96f8-47d3-a964-05c5ef5f2d90\", \"address\": \"fa:16:3e:63:37:0e\", \"network\": {\"id\": \"a8ac4388-6e22-41c2-98be-bb7ea6a6a65c\", \"bridge\": \"br-int\", \"label\": \"private\", \"subnets\": [{\"cidr\": \"10.60.0.0/24\", \"dns\": [], \"gateway\": {\"address\": \"10.60.0.1\", \"type\": \"gateway\", \"version\": 4, \"meta\": {}}, \"ips\": [{\"address\": \"10.60.0.21\", \"type\": \"fixed\", \"version\": 4, \"meta\": {}, \"floating_ips\": []}], \"routes\": [], \"version\": 4, \"meta\": {\"dhcp_server\": \"10.60.0.1\"}}], \"meta\": {\"injected\": false, \"tenant_id\": \"ee02ffde8ef44b7db84c30d757f084dc\", \"mtu\": 1442, \"physical_network\": null, \"tunneled\": true}}, \"type\": \"ovs\", \"details\": {\"port_filter\": true, \"connectivity\": \"l2\", \"bound_drivers\": {\"0\": \"ovn\"}}, \"devname\": \"tap6ef9ac2d-96\", \"ovs_interfaceid\": \"6ef9ac2d-96f8-47d3-a964-05c5ef5f2d90\", \"qbh_params\": null, \"qbg_params\": null, \"active\": true, \"vnic_type\": \"normal\", \"profile\": {}, \"preserve_on_delete\": true, \"delegate_create\": true, \"meta\": {}}]','e7ee3d45-92a9-43a3-9ab0-40bd8d075433',0),
('2026-11-22 13:14:35','2026-11-22 13:15:53',NULL,2,'[{\"id\": \"655032af-04c6-4c69-badd-8cdd4880b4ce\", \"address\": \"fa:16:3e:34:05:83\", \"network\": {\"id\": \"a8ac4388-6e22-41c2-98be-bb7ea6a6a65c\", \"bridge\": \"br-int\", \"label\": \"private\", \"subnets\": [{\"cidr\": \"10.60.0.0/24\", \"dns\": [], \"gateway\": {\"address\": \"10.60.0.1\", \"type\": \"gateway\", \"version\": 4, \"meta\": {}}, \"ips\": [{\"address\": \"10.60.0.239\", \"type\": \"fixed\", \"version\": 4, \"meta\": {}, \"floating_ips\": []}], \"routes\": [], \"version\": 4, \"meta\": {\"dhcp_server\": \"10.60.0.1\"}}], \"meta\": {\"injected\": false, \"tenant_id\": \"ee02ffde8ef44b7db84c30d757f084dc\", \"mtu\": 1442, \"physical_network\": null, \"tunneled\": true}}, \"type\": \"ovs\", \"details\": {\"port_filter\": true, \"connectivity\": \"l2\", \"bound_drivers\": {\"0\": \"ovn\"}}, \"devname\": \"tap655032af-04\", \"ovs_interfaceid\": \"655032af-04c6-4c69-badd-8cdd4880b4ce\", \"qbh_params\": null, \"qbg_params\": null, \"active\": true, \"vnic_type\": \"normal\", \"profile\": {}, \"preserve_on_delete\": true, \"delegate_create\": true, \"meta\": {}}]','44b43f74-d5b3-4298-9c19-639f27993b59',0),
('2026-11-22 13:14:58','2026-11-22 13:16:57',NULL,3,'[{\"id\": \"5ff378e6-d1d9-42f4-9b92-96a74d54aed2\", \"address\": \"fa:16:3e:dc:8a:7d\", \"network\": {\"id\": \"a8ac4388-6e22-41c2-98be-bb7ea6a6a65c\", \"bridge\": \"br-int\", \"label\": \"private\", \"subnets\": [{\"cidr\": \"10.60.0.0/24\", \"dns\": [], \"gateway\": {\"address\": \"10.60.0.1\", \"type\": \"gateway\", \"version\": 4, \"meta\": {}}, \"ips\": [{\"address\": \"10.60.0.99\", \"type\": \"fixed\", \"version\": 4, \"meta\": {}, \"floating_ips\": []}], \"routes\": [], \"version\": 4, \"meta\": {\"dhcp_server\": \"10.60.0.1\"}}], \"meta\": {\"injected\": false, \"tenant_id\": \"ee02ffde8ef44b7db84c30d757f084dc\", \"mtu\": 1442, \"physical_network\": null, \"tunneled\": true}}, \"type\": \"ovs\", \"details\": {\"port_filter\": true, \"connectivity\": \"l2\", \"bound_drivers\": {\"0\": \"ovn\"}}, \"devname\": \"tap5ff378e6-d1\", \"ovs_interfaceid\": \"5ff378e6-d1d9-42f4-9b92-96a74d54aed2\", \"qbh_params\": null, \"qbg_params\": null, \"active\": true, \"vnic_type\": \"normal\", \"profile\": {}, \"preserve_on_delete\": false, \"delegate_create\": true, \"meta\": {}}]','555e52b6-108a-4e4d-801e-af68c8d5923c',0);
/*!40000 ALTER TABLE `instance_info_caches` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_metadata`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_metadata` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `key` varchar(255) DEFAULT NULL,
  `value` varchar(255) DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `instance_metadata_instance_uuid_idx` (`instance_uuid`),
  CONSTRAINT `instance_metadata_instance_uuid_fkey` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_metadata` WRITE;
/*!40000 ALTER TABLE `instance_metadata` DISABLE KEYS */;
INSERT INTO `instance_metadata` VALUES
('2026-11-22 13:14:12',NULL,NULL,1,'role','web','e7ee3d45-92a9-43a3-9ab0-40bd8d075433',0);
/*!40000 ALTER TABLE `instance_metadata` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_system_metadata`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_system_metadata` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_uuid` varchar(36) NOT NULL,
  `key` varchar(255) NOT NULL,
  `value` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `instance_uuid` (`instance_uuid`),
  CONSTRAINT `instance_system_metadata_ibfk_1` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=53 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_system_metadata` WRITE;
/*!40000 ALTER TABLE `instance_system_metadata` DISABLE KEYS */;
INSERT INTO `instance_system_metadata` VALUES
('2026-11-22 13:14:12',NULL,NULL,1,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_hw_qemu_guest_agent','yes',0),
('2026-11-22 13:14:12',NULL,NULL,2,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_os_require_quiesce','no',0),
('2026-11-22 13:14:13',NULL,NULL,3,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_min_ram','0',0),
('2026-11-22 13:14:13',NULL,NULL,4,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_min_disk','1',0),
('2026-11-22 13:14:13',NULL,NULL,5,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_disk_format','raw',0),
('2026-11-22 13:14:13',NULL,NULL,6,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_container_format','bare',0),
('2026-11-22 13:14:13',NULL,NULL,7,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_base_image_ref','56e20d83-641e-47f3-a91e-69cc636e2354',0),
('2026-11-22 13:14:13',NULL,NULL,8,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','owner_user_name','admin',0),
('2026-11-22 13:14:13',NULL,NULL,9,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','owner_project_name','demo',0),
('2026-11-22 13:14:13',NULL,NULL,10,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','boot_roles','admin,reader,member',0),
('2026-11-22 13:14:26',NULL,NULL,12,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_hw_machine_type','pc',0),
('2026-11-22 13:14:26',NULL,NULL,13,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_hw_cdrom_bus','ide',0),
('2026-11-22 13:14:26',NULL,NULL,14,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_hw_disk_bus','virtio',0),
('2026-11-22 13:14:26',NULL,NULL,15,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_hw_input_bus','usb',0),
('2026-11-22 13:14:26',NULL,NULL,16,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_hw_pointer_model','usbtablet',0),
('2026-11-22 13:14:26',NULL,NULL,17,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_hw_video_model','virtio',0),
('2026-11-22 13:14:26',NULL,NULL,18,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433','image_hw_vif_model','virtio',0),
('2026-11-22 13:14:35',NULL,NULL,19,'44b43f74-d5b3-4298-9c19-639f27993b59','image_hw_qemu_guest_agent','yes',0),
('2026-11-22 13:14:35',NULL,NULL,20,'44b43f74-d5b3-4298-9c19-639f27993b59','image_os_require_quiesce','no',0),
('2026-11-22 13:14:35',NULL,NULL,21,'44b43f74-d5b3-4298-9c19-639f27993b59','image_min_ram','0',0),
('2026-11-22 13:14:35',NULL,NULL,22,'44b43f74-d5b3-4298-9c19-639f27993b59','image_min_disk','1',0),
('2026-11-22 13:14:35',NULL,NULL,23,'44b43f74-d5b3-4298-9c19-639f27993b59','image_base_image_ref','',0),
('2026-11-22 13:14:35',NULL,NULL,24,'44b43f74-d5b3-4298-9c19-639f27993b59','owner_user_name','admin',0),
('2026-11-22 13:14:35',NULL,NULL,25,'44b43f74-d5b3-4298-9c19-639f27993b59','owner_project_name','demo',0),
('2026-11-22 13:14:35',NULL,NULL,26,'44b43f74-d5b3-4298-9c19-639f27993b59','boot_roles','admin,reader,member',0),
('2026-11-22 13:14:52',NULL,NULL,28,'44b43f74-d5b3-4298-9c19-639f27993b59','image_hw_machine_type','pc',0),
('2026-11-22 13:14:52',NULL,NULL,29,'44b43f74-d5b3-4298-9c19-639f27993b59','image_hw_cdrom_bus','ide',0),
('2026-11-22 13:14:52',NULL,NULL,30,'44b43f74-d5b3-4298-9c19-639f27993b59','image_hw_disk_bus','virtio',0),
('2026-11-22 13:14:52',NULL,NULL,31,'44b43f74-d5b3-4298-9c19-639f27993b59','image_hw_input_bus','usb',0),
('2026-11-22 13:14:52',NULL,NULL,32,'44b43f74-d5b3-4298-9c19-639f27993b59','image_hw_pointer_model','usbtablet',0),
('2026-11-22 13:14:52',NULL,NULL,33,'44b43f74-d5b3-4298-9c19-639f27993b59','image_hw_video_model','virtio',0),
('2026-11-22 13:14:52',NULL,NULL,34,'44b43f74-d5b3-4298-9c19-639f27993b59','image_hw_vif_model','virtio',0),
('2026-11-22 13:14:58',NULL,NULL,35,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_hw_qemu_guest_agent','yes',0),
('2026-11-22 13:14:58',NULL,NULL,36,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_os_require_quiesce','no',0),
('2026-11-22 13:14:58',NULL,NULL,37,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_min_ram','0',0),
('2026-11-22 13:14:58',NULL,NULL,38,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_min_disk','1',0),
('2026-11-22 13:14:58',NULL,NULL,39,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_disk_format','raw',0),
('2026-11-22 13:14:58',NULL,NULL,40,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_container_format','bare',0),
('2026-11-22 13:14:58',NULL,NULL,41,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_base_image_ref','56e20d83-641e-47f3-a91e-69cc636e2354',0),
('2026-11-22 13:14:58',NULL,NULL,42,'555e52b6-108a-4e4d-801e-af68c8d5923c','owner_user_name','admin',0),
('2026-11-22 13:14:58',NULL,NULL,43,'555e52b6-108a-4e4d-801e-af68c8d5923c','owner_project_name','demo',0),
('2026-11-22 13:14:59',NULL,NULL,44,'555e52b6-108a-4e4d-801e-af68c8d5923c','boot_roles','admin,reader,member',0),
('2026-11-22 13:15:12',NULL,NULL,46,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_hw_machine_type','pc',0),
('2026-11-22 13:15:12',NULL,NULL,47,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_hw_cdrom_bus','ide',0),
('2026-11-22 13:15:12',NULL,NULL,48,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_hw_disk_bus','virtio',0),
('2026-11-22 13:15:12',NULL,NULL,49,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_hw_input_bus','usb',0),
('2026-11-22 13:15:12',NULL,NULL,50,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_hw_pointer_model','usbtablet',0),
('2026-11-22 13:15:12',NULL,NULL,51,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_hw_video_model','virtio',0),
('2026-11-22 13:15:12',NULL,NULL,52,'555e52b6-108a-4e4d-801e-af68c8d5923c','image_hw_vif_model','virtio',0);
/*!40000 ALTER TABLE `instance_system_metadata` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_type_extra_specs`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_type_extra_specs` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_type_id` int(11) NOT NULL,
  `key` varchar(255) DEFAULT NULL,
  `value` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_instance_type_extra_specs0instance_type_id0key0deleted` (`instance_type_id`,`key`,`deleted`),
  KEY `instance_type_extra_specs_instance_type_id_key_idx` (`instance_type_id`,`key`),
  CONSTRAINT `instance_type_extra_specs_ibfk_1` FOREIGN KEY (`instance_type_id`) REFERENCES `instance_types` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_type_extra_specs` WRITE;
/*!40000 ALTER TABLE `instance_type_extra_specs` DISABLE KEYS */;
/*!40000 ALTER TABLE `instance_type_extra_specs` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_type_projects`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_type_projects` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_type_id` int(11) NOT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_instance_type_projects0instance_type_id0project_id0deleted` (`instance_type_id`,`project_id`,`deleted`),
  KEY `instance_type_id` (`instance_type_id`),
  CONSTRAINT `instance_type_projects_ibfk_1` FOREIGN KEY (`instance_type_id`) REFERENCES `instance_types` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_type_projects` WRITE;
/*!40000 ALTER TABLE `instance_type_projects` DISABLE KEYS */;
/*!40000 ALTER TABLE `instance_type_projects` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instance_types`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instance_types` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `name` varchar(255) DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `memory_mb` int(11) NOT NULL,
  `vcpus` int(11) NOT NULL,
  `swap` int(11) NOT NULL,
  `vcpu_weight` int(11) DEFAULT NULL,
  `flavorid` varchar(255) DEFAULT NULL,
  `rxtx_factor` float DEFAULT NULL,
  `root_gb` int(11) DEFAULT NULL,
  `ephemeral_gb` int(11) DEFAULT NULL,
  `disabled` tinyint(1) DEFAULT NULL,
  `is_public` tinyint(1) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_instance_types0name0deleted` (`name`,`deleted`),
  UNIQUE KEY `uniq_instance_types0flavorid0deleted` (`flavorid`,`deleted`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instance_types` WRITE;
/*!40000 ALTER TABLE `instance_types` DISABLE KEYS */;
/*!40000 ALTER TABLE `instance_types` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `instances`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `instances` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `internal_id` int(11) DEFAULT NULL,
  `user_id` varchar(255) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `image_ref` varchar(255) DEFAULT NULL,
  `kernel_id` varchar(255) DEFAULT NULL,
  `ramdisk_id` varchar(255) DEFAULT NULL,
  `launch_index` int(11) DEFAULT NULL,
  `key_name` varchar(255) DEFAULT NULL,
  `key_data` mediumtext DEFAULT NULL,
  `power_state` int(11) DEFAULT NULL,
  `vm_state` varchar(255) DEFAULT NULL,
  `memory_mb` int(11) DEFAULT NULL,
  `vcpus` int(11) DEFAULT NULL,
  `hostname` varchar(255) DEFAULT NULL,
  `host` varchar(255) DEFAULT NULL,
  `user_data` mediumtext DEFAULT NULL,
  `reservation_id` varchar(255) DEFAULT NULL,
  `launched_at` datetime DEFAULT NULL,
  `terminated_at` datetime DEFAULT NULL,
  `display_name` varchar(255) DEFAULT NULL,
  `display_description` varchar(255) DEFAULT NULL,
  `availability_zone` varchar(255) DEFAULT NULL,
  `locked` tinyint(1) DEFAULT NULL,
  `os_type` varchar(255) DEFAULT NULL,
  `launched_on` mediumtext DEFAULT NULL,
  `instance_type_id` int(11) DEFAULT NULL,
  `vm_mode` varchar(255) DEFAULT NULL,
  `uuid` varchar(36) NOT NULL,
  `architecture` varchar(255) DEFAULT NULL,
  `root_device_name` varchar(255) DEFAULT NULL,
  `access_ip_v4` varchar(39) DEFAULT NULL,
  `access_ip_v6` varchar(39) DEFAULT NULL,
  `config_drive` varchar(255) DEFAULT NULL,
  `task_state` varchar(255) DEFAULT NULL,
  `default_ephemeral_device` varchar(255) DEFAULT NULL,
  `default_swap_device` varchar(255) DEFAULT NULL,
  `progress` int(11) DEFAULT NULL,
  `auto_disk_config` tinyint(1) DEFAULT NULL,
  `shutdown_terminate` tinyint(1) DEFAULT NULL,
  `disable_terminate` tinyint(1) DEFAULT NULL,
  `root_gb` int(11) DEFAULT NULL,
  `ephemeral_gb` int(11) DEFAULT NULL,
  `cell_name` varchar(255) DEFAULT NULL,
  `node` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `locked_by` enum('owner','admin') DEFAULT NULL,
  `cleaned` int(11) DEFAULT NULL,
  `ephemeral_key_uuid` varchar(36) DEFAULT NULL,
  `hidden` tinyint(1) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_instances0uuid` (`uuid`),
  UNIQUE KEY `uuid` (`uuid`),
  KEY `instances_host_deleted_cleaned_idx` (`host`,`deleted`,`cleaned`),
  KEY `instances_updated_at_project_id_idx` (`updated_at`,`project_id`),
  KEY `instances_project_id_deleted_idx` (`project_id`,`deleted`),
  KEY `instances_terminated_at_launched_at_idx` (`terminated_at`,`launched_at`),
  KEY `instances_deleted_created_at_idx` (`deleted`,`created_at`),
  KEY `instances_reservation_id_idx` (`reservation_id`),
  KEY `instances_uuid_deleted_idx` (`uuid`,`deleted`),
  KEY `instances_project_id_idx` (`project_id`),
  KEY `instances_host_node_deleted_idx` (`host`,`node`,`deleted`),
  KEY `instances_task_state_updated_at_idx` (`task_state`,`updated_at`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `instances` WRITE;
/*!40000 ALTER TABLE `instances` DISABLE KEYS */;
INSERT INTO `instances` VALUES
('2026-11-22 13:14:11','2026-11-22 13:14:26',NULL,1,NULL,'dae8651f4040413689e07654e5ae7f85','ee02ffde8ef44b7db84c30d757f084dc','56e20d83-641e-47f3-a91e-69cc636e2354','','',0,'k1','ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8Jm1c9rEwXhFQHLm0PTjP4zOv6Zr4qHh3Jv5oJYt0x test',1,'active',128,1,'web1','h1','IyEvYmluL3NoCmVjaG8gd2ViMSA+IC90bXAvdWQK','r-ytyl0q8y','2026-11-22 13:14:26',NULL,'web1',NULL,'nova',0,NULL,'h1',1,NULL,'e7ee3d45-92a9-43a3-9ab0-40bd8d075433',NULL,'/dev/vda',NULL,NULL,'True',NULL,NULL,NULL,0,0,0,0,1,0,NULL,'h1',0,NULL,0,NULL,0),
('2026-11-22 13:14:34','2026-11-22 13:14:53',NULL,2,NULL,'dae8651f4040413689e07654e5ae7f85','ee02ffde8ef44b7db84c30d757f084dc','','','',0,NULL,NULL,1,'active',192,1,'db1','h2',NULL,'r-78vub95j','2026-11-22 13:14:53',NULL,'db1','boots from a volume','nova',0,NULL,'h2',2,NULL,'44b43f74-d5b3-4298-9c19-639f27993b59',NULL,'/dev/vda',NULL,NULL,'',NULL,NULL,NULL,0,0,0,0,1,0,NULL,'h2',0,NULL,0,NULL,0),
('2026-11-22 13:14:57','2026-11-22 13:15:39',NULL,3,NULL,'dae8651f4040413689e07654e5ae7f85','ee02ffde8ef44b7db84c30d757f084dc','56e20d83-641e-47f3-a91e-69cc636e2354','','',0,NULL,NULL,4,'stopped',128,1,'old1','h1',NULL,'r-qya7mj0d','2026-11-22 13:15:12',NULL,'old1',NULL,'nova',0,NULL,'h1',1,NULL,'555e52b6-108a-4e4d-801e-af68c8d5923c',NULL,'/dev/vda',NULL,NULL,'',NULL,NULL,NULL,0,0,0,0,1,0,NULL,'h1',0,NULL,0,NULL,0);
/*!40000 ALTER TABLE `instances` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `inventories`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `inventories` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `resource_provider_id` int(11) NOT NULL,
  `resource_class_id` int(11) NOT NULL,
  `total` int(11) NOT NULL,
  `reserved` int(11) NOT NULL,
  `min_unit` int(11) NOT NULL,
  `max_unit` int(11) NOT NULL,
  `step_size` int(11) NOT NULL,
  `allocation_ratio` float NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_inventories0resource_provider_resource_class` (`resource_provider_id`,`resource_class_id`),
  KEY `inventories_resource_provider_id_idx` (`resource_provider_id`),
  KEY `inventories_resource_provider_resource_class_idx` (`resource_provider_id`,`resource_class_id`),
  KEY `inventories_resource_class_id_idx` (`resource_class_id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `inventories` WRITE;
/*!40000 ALTER TABLE `inventories` DISABLE KEYS */;
/*!40000 ALTER TABLE `inventories` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `key_pairs`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `key_pairs` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `name` varchar(255) NOT NULL,
  `user_id` varchar(255) DEFAULT NULL,
  `fingerprint` varchar(255) DEFAULT NULL,
  `public_key` mediumtext DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `type` enum('ssh','x509') NOT NULL DEFAULT 'ssh',
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_key_pairs0user_id0name0deleted` (`user_id`,`name`,`deleted`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `key_pairs` WRITE;
/*!40000 ALTER TABLE `key_pairs` DISABLE KEYS */;
/*!40000 ALTER TABLE `key_pairs` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `migrations`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `migrations` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `source_compute` varchar(255) DEFAULT NULL,
  `dest_compute` varchar(255) DEFAULT NULL,
  `dest_host` varchar(255) DEFAULT NULL,
  `status` varchar(255) DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `old_instance_type_id` int(11) DEFAULT NULL,
  `new_instance_type_id` int(11) DEFAULT NULL,
  `source_node` varchar(255) DEFAULT NULL,
  `dest_node` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `migration_type` enum('migration','resize','live-migration','evacuation') DEFAULT NULL,
  `hidden` tinyint(1) DEFAULT NULL,
  `memory_total` bigint(20) DEFAULT NULL,
  `memory_processed` bigint(20) DEFAULT NULL,
  `memory_remaining` bigint(20) DEFAULT NULL,
  `disk_total` bigint(20) DEFAULT NULL,
  `disk_processed` bigint(20) DEFAULT NULL,
  `disk_remaining` bigint(20) DEFAULT NULL,
  `uuid` varchar(36) DEFAULT NULL,
  `cross_cell_move` tinyint(1) DEFAULT NULL,
  `user_id` varchar(255) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `migrations_uuid` (`uuid`),
  KEY `fk_migrations_instance_uuid` (`instance_uuid`),
  KEY `migrations_instance_uuid_and_status_idx` (`deleted`,`instance_uuid`,`status`),
  KEY `migrations_updated_at_idx` (`updated_at`),
  KEY `migrations_by_host_nodes_and_status_idx` (`deleted`,`source_compute`(100),`dest_compute`(100),`source_node`(100),`dest_node`(100),`status`),
  CONSTRAINT `fk_migrations_instance_uuid` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `migrations` WRITE;
/*!40000 ALTER TABLE `migrations` DISABLE KEYS */;
/*!40000 ALTER TABLE `migrations` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `networks`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `networks` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `injected` tinyint(1) DEFAULT NULL,
  `cidr` varchar(43) DEFAULT NULL,
  `netmask` varchar(39) DEFAULT NULL,
  `bridge` varchar(255) DEFAULT NULL,
  `gateway` varchar(39) DEFAULT NULL,
  `broadcast` varchar(39) DEFAULT NULL,
  `dns1` varchar(39) DEFAULT NULL,
  `vlan` int(11) DEFAULT NULL,
  `vpn_public_address` varchar(39) DEFAULT NULL,
  `vpn_public_port` int(11) DEFAULT NULL,
  `vpn_private_address` varchar(39) DEFAULT NULL,
  `dhcp_start` varchar(39) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `host` varchar(255) DEFAULT NULL,
  `cidr_v6` varchar(43) DEFAULT NULL,
  `gateway_v6` varchar(39) DEFAULT NULL,
  `label` varchar(255) DEFAULT NULL,
  `netmask_v6` varchar(39) DEFAULT NULL,
  `bridge_interface` varchar(255) DEFAULT NULL,
  `multi_host` tinyint(1) DEFAULT NULL,
  `dns2` varchar(39) DEFAULT NULL,
  `uuid` varchar(36) DEFAULT NULL,
  `priority` int(11) DEFAULT NULL,
  `rxtx_base` int(11) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `mtu` int(11) DEFAULT NULL,
  `dhcp_server` varchar(39) DEFAULT NULL,
  `enable_dhcp` tinyint(1) DEFAULT NULL,
  `share_address` tinyint(1) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_networks0vlan0deleted` (`vlan`,`deleted`),
  KEY `networks_project_id_deleted_idx` (`project_id`,`deleted`),
  KEY `networks_uuid_project_id_deleted_idx` (`uuid`,`project_id`,`deleted`),
  KEY `networks_host_idx` (`host`),
  KEY `networks_bridge_deleted_idx` (`bridge`,`deleted`),
  KEY `networks_vlan_deleted_idx` (`vlan`,`deleted`),
  KEY `networks_cidr_v6_idx` (`cidr_v6`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `networks` WRITE;
/*!40000 ALTER TABLE `networks` DISABLE KEYS */;
/*!40000 ALTER TABLE `networks` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `pci_devices`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `pci_devices` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `compute_node_id` int(11) NOT NULL,
  `address` varchar(12) NOT NULL,
  `product_id` varchar(4) NOT NULL,
  `vendor_id` varchar(4) NOT NULL,
  `dev_type` varchar(8) NOT NULL,
  `dev_id` varchar(255) DEFAULT NULL,
  `label` varchar(255) NOT NULL,
  `status` varchar(36) NOT NULL,
  `extra_info` text DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `request_id` varchar(36) DEFAULT NULL,
  `numa_node` int(11) DEFAULT NULL,
  `parent_addr` varchar(12) DEFAULT NULL,
  `uuid` varchar(36) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_pci_devices0compute_node_id0address0deleted` (`compute_node_id`,`address`,`deleted`),
  KEY `ix_pci_devices_instance_uuid_deleted` (`instance_uuid`,`deleted`),
  KEY `ix_pci_devices_compute_node_id_deleted` (`compute_node_id`,`deleted`),
  KEY `ix_pci_devices_compute_node_id_parent_addr_deleted` (`compute_node_id`,`parent_addr`,`deleted`),
  CONSTRAINT `pci_devices_compute_node_id_fkey` FOREIGN KEY (`compute_node_id`) REFERENCES `compute_nodes` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `pci_devices` WRITE;
/*!40000 ALTER TABLE `pci_devices` DISABLE KEYS */;
/*!40000 ALTER TABLE `pci_devices` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `project_user_quotas`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `project_user_quotas` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `user_id` varchar(255) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `resource` varchar(255) NOT NULL,
  `hard_limit` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_project_user_quotas0user_id0project_id0resource0deleted` (`user_id`,`project_id`,`resource`,`deleted`),
  KEY `project_user_quotas_project_id_deleted_idx` (`project_id`,`deleted`),
  KEY `project_user_quotas_user_id_deleted_idx` (`user_id`,`deleted`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `project_user_quotas` WRITE;
/*!40000 ALTER TABLE `project_user_quotas` DISABLE KEYS */;
/*!40000 ALTER TABLE `project_user_quotas` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `provider_fw_rules`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `provider_fw_rules` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `protocol` varchar(5) DEFAULT NULL,
  `from_port` int(11) DEFAULT NULL,
  `to_port` int(11) DEFAULT NULL,
  `cidr` varchar(43) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `provider_fw_rules` WRITE;
/*!40000 ALTER TABLE `provider_fw_rules` DISABLE KEYS */;
/*!40000 ALTER TABLE `provider_fw_rules` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `quota_classes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `quota_classes` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `class_name` varchar(255) DEFAULT NULL,
  `resource` varchar(255) DEFAULT NULL,
  `hard_limit` int(11) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_quota_classes_class_name` (`class_name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `quota_classes` WRITE;
/*!40000 ALTER TABLE `quota_classes` DISABLE KEYS */;
/*!40000 ALTER TABLE `quota_classes` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `quota_usages`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `quota_usages` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `project_id` varchar(255) DEFAULT NULL,
  `resource` varchar(255) NOT NULL,
  `in_use` int(11) NOT NULL,
  `reserved` int(11) NOT NULL,
  `until_refresh` int(11) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `user_id` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_quota_usages_project_id` (`project_id`),
  KEY `ix_quota_usages_user_id_deleted` (`user_id`,`deleted`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `quota_usages` WRITE;
/*!40000 ALTER TABLE `quota_usages` DISABLE KEYS */;
/*!40000 ALTER TABLE `quota_usages` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `quotas`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `quotas` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `resource` varchar(255) NOT NULL,
  `hard_limit` int(11) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_quotas0project_id0resource0deleted` (`project_id`,`resource`,`deleted`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `quotas` WRITE;
/*!40000 ALTER TABLE `quotas` DISABLE KEYS */;
/*!40000 ALTER TABLE `quotas` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `reservations`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `reservations` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `uuid` varchar(36) NOT NULL,
  `usage_id` int(11) NOT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `resource` varchar(255) DEFAULT NULL,
  `delta` int(11) NOT NULL,
  `expire` datetime DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `user_id` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `reservations_uuid_idx` (`uuid`),
  KEY `ix_reservations_user_id_deleted` (`user_id`,`deleted`),
  KEY `ix_reservations_project_id` (`project_id`),
  KEY `reservations_deleted_expire_idx` (`deleted`,`expire`),
  KEY `usage_id` (`usage_id`),
  CONSTRAINT `reservations_ibfk_1` FOREIGN KEY (`usage_id`) REFERENCES `quota_usages` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `reservations` WRITE;
/*!40000 ALTER TABLE `reservations` DISABLE KEYS */;
/*!40000 ALTER TABLE `reservations` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `resource_provider_aggregates`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `resource_provider_aggregates` (
  `resource_provider_id` int(11) NOT NULL,
  `aggregate_id` int(11) NOT NULL,
  PRIMARY KEY (`resource_provider_id`,`aggregate_id`),
  KEY `resource_provider_aggregates_aggregate_id_idx` (`aggregate_id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `resource_provider_aggregates` WRITE;
/*!40000 ALTER TABLE `resource_provider_aggregates` DISABLE KEYS */;
/*!40000 ALTER TABLE `resource_provider_aggregates` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `resource_providers`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `resource_providers` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `uuid` varchar(36) NOT NULL,
  `name` varchar(200) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci DEFAULT NULL,
  `generation` int(11) DEFAULT NULL,
  `can_host` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_resource_providers0uuid` (`uuid`),
  UNIQUE KEY `uniq_resource_providers0name` (`name`),
  KEY `resource_providers_uuid_idx` (`uuid`),
  KEY `resource_providers_name_idx` (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `resource_providers` WRITE;
/*!40000 ALTER TABLE `resource_providers` DISABLE KEYS */;
/*!40000 ALTER TABLE `resource_providers` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `s3_images`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `s3_images` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `uuid` varchar(36) NOT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `s3_images` WRITE;
/*!40000 ALTER TABLE `s3_images` DISABLE KEYS */;
INSERT INTO `s3_images` VALUES
('2026-11-22 13:14:13',NULL,NULL,1,'56e20d83-641e-47f3-a91e-69cc636e2354',0);
/*!40000 ALTER TABLE `s3_images` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `security_group_default_rules`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `security_group_default_rules` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `protocol` varchar(5) DEFAULT NULL,
  `from_port` int(11) DEFAULT NULL,
  `to_port` int(11) DEFAULT NULL,
  `cidr` varchar(43) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `security_group_default_rules` WRITE;
/*!40000 ALTER TABLE `security_group_default_rules` DISABLE KEYS */;
/*!40000 ALTER TABLE `security_group_default_rules` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `security_group_instance_association`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `security_group_instance_association` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `security_group_id` int(11) DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `security_group_instance_association_instance_uuid_idx` (`instance_uuid`),
  KEY `security_group_id` (`security_group_id`),
  CONSTRAINT `security_group_instance_association_ibfk_1` FOREIGN KEY (`security_group_id`) REFERENCES `security_groups` (`id`),
  CONSTRAINT `security_group_instance_association_instance_uuid_fkey` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `security_group_instance_association` WRITE;
/*!40000 ALTER TABLE `security_group_instance_association` DISABLE KEYS */;
/*!40000 ALTER TABLE `security_group_instance_association` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `security_group_rules`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `security_group_rules` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `parent_group_id` int(11) DEFAULT NULL,
  `protocol` varchar(255) DEFAULT NULL,
  `from_port` int(11) DEFAULT NULL,
  `to_port` int(11) DEFAULT NULL,
  `cidr` varchar(43) DEFAULT NULL,
  `group_id` int(11) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `parent_group_id` (`parent_group_id`),
  KEY `group_id` (`group_id`),
  CONSTRAINT `security_group_rules_ibfk_1` FOREIGN KEY (`parent_group_id`) REFERENCES `security_groups` (`id`),
  CONSTRAINT `security_group_rules_ibfk_2` FOREIGN KEY (`group_id`) REFERENCES `security_groups` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `security_group_rules` WRITE;
/*!40000 ALTER TABLE `security_group_rules` DISABLE KEYS */;
/*!40000 ALTER TABLE `security_group_rules` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `security_groups`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `security_groups` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `name` varchar(255) DEFAULT NULL,
  `description` varchar(255) DEFAULT NULL,
  `user_id` varchar(255) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_security_groups0project_id0name0deleted` (`project_id`,`name`,`deleted`)
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `security_groups` WRITE;
/*!40000 ALTER TABLE `security_groups` DISABLE KEYS */;
INSERT INTO `security_groups` VALUES
('2026-11-22 13:14:12',NULL,NULL,1,'default','default','dae8651f4040413689e07654e5ae7f85','ee02ffde8ef44b7db84c30d757f084dc',0);
/*!40000 ALTER TABLE `security_groups` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `services`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `services` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `host` varchar(255) DEFAULT NULL,
  `binary` varchar(255) DEFAULT NULL,
  `topic` varchar(255) DEFAULT NULL,
  `report_count` int(11) NOT NULL,
  `disabled` tinyint(1) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `disabled_reason` varchar(255) DEFAULT NULL,
  `last_seen_up` datetime DEFAULT NULL,
  `forced_down` tinyint(1) DEFAULT NULL,
  `version` int(11) DEFAULT NULL,
  `uuid` varchar(36) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_services0host0topic0deleted` (`host`,`topic`,`deleted`),
  UNIQUE KEY `uniq_services0host0binary0deleted` (`host`,`binary`,`deleted`),
  UNIQUE KEY `services_uuid_idx` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `services` WRITE;
/*!40000 ALTER TABLE `services` DISABLE KEYS */;
INSERT INTO `services` VALUES
('2026-11-22 13:13:45','2026-11-22 13:18:10',NULL,1,'ctl','nova-conductor','conductor',27,0,0,NULL,'2026-11-22 13:18:10',0,64,'0043f2bf-f6fe-4c82-bdcb-929124eb82b6'),
('2026-11-22 13:13:45','2026-11-22 13:18:10',NULL,2,'ctl','nova-scheduler','scheduler',27,0,0,NULL,'2026-11-22 13:18:10',0,64,'34d6032e-f824-4df2-ac18-2bc18c8674d8'),
('2026-11-22 13:13:45',NULL,NULL,3,'ctl','nova-metadata',NULL,0,0,0,NULL,NULL,0,64,'43ab1b55-9588-4d5c-a37f-7e9f67598754'),
('2026-11-22 13:13:48','2026-11-22 13:18:06',NULL,4,'h1','nova-compute','compute',26,0,0,NULL,'2026-11-22 13:18:06',0,64,'809ff68f-fd1f-4bfe-97f6-4c54edbf5f9b'),
('2026-11-22 13:13:48','2026-11-22 13:18:06',NULL,5,'h2','nova-compute','compute',26,0,0,NULL,'2026-11-22 13:18:06',0,64,'ba9b0f07-43f9-4ae4-9262-ba69609d8e6d'),
('2026-11-22 13:13:54',NULL,NULL,6,'ctl','nova-osapi_compute',NULL,0,0,0,NULL,NULL,0,64,'de6a109d-6566-461c-a412-9e92e4a77512');
/*!40000 ALTER TABLE `services` ENABLE KEYS */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
/*!40101 SET character_set_client = @saved_cs_client */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `snapshot_id_mappings`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `snapshot_id_mappings` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `uuid` varchar(36) NOT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `snapshot_id_mappings` WRITE;
/*!40000 ALTER TABLE `snapshot_id_mappings` DISABLE KEYS */;
/*!40000 ALTER TABLE `snapshot_id_mappings` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `snapshots`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `snapshots` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` varchar(36) NOT NULL,
  `volume_id` varchar(36) NOT NULL,
  `user_id` varchar(255) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `status` varchar(255) DEFAULT NULL,
  `progress` varchar(255) DEFAULT NULL,
  `volume_size` int(11) DEFAULT NULL,
  `scheduled_at` datetime DEFAULT NULL,
  `display_name` varchar(255) DEFAULT NULL,
  `display_description` varchar(255) DEFAULT NULL,
  `deleted` varchar(36) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `snapshots` WRITE;
/*!40000 ALTER TABLE `snapshots` DISABLE KEYS */;
/*!40000 ALTER TABLE `snapshots` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `tags`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `tags` (
  `resource_id` varchar(36) NOT NULL,
  `tag` varchar(80) NOT NULL,
  PRIMARY KEY (`resource_id`,`tag`),
  KEY `tags_tag_idx` (`tag`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `tags` WRITE;
/*!40000 ALTER TABLE `tags` DISABLE KEYS */;
INSERT INTO `tags` VALUES
('e7ee3d45-92a9-43a3-9ab0-40bd8d075433','blue');
/*!40000 ALTER TABLE `tags` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `task_log`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `task_log` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `task_name` varchar(255) NOT NULL,
  `state` varchar(255) NOT NULL,
  `host` varchar(255) NOT NULL,
  `period_beginning` datetime NOT NULL,
  `period_ending` datetime NOT NULL,
  `message` varchar(255) NOT NULL,
  `task_items` int(11) DEFAULT NULL,
  `errors` int(11) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_task_log0task_name0host0period_beginning0period_ending` (`task_name`,`host`,`period_beginning`,`period_ending`),
  KEY `ix_task_log_period_beginning` (`period_beginning`),
  KEY `ix_task_log_period_ending` (`period_ending`),
  KEY `ix_task_log_host` (`host`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `task_log` WRITE;
/*!40000 ALTER TABLE `task_log` DISABLE KEYS */;
/*!40000 ALTER TABLE `task_log` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `virtual_interfaces`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `virtual_interfaces` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `address` varchar(255) DEFAULT NULL,
  `network_id` int(11) DEFAULT NULL,
  `uuid` varchar(36) DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `tag` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_virtual_interfaces0address0deleted` (`address`,`deleted`),
  KEY `virtual_interfaces_uuid_idx` (`uuid`),
  KEY `virtual_interfaces_network_id_idx` (`network_id`),
  KEY `virtual_interfaces_instance_uuid_fkey` (`instance_uuid`),
  CONSTRAINT `virtual_interfaces_instance_uuid_fkey` FOREIGN KEY (`instance_uuid`) REFERENCES `instances` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `virtual_interfaces` WRITE;
/*!40000 ALTER TABLE `virtual_interfaces` DISABLE KEYS */;
INSERT INTO `virtual_interfaces` VALUES
('2026-11-22 13:14:17',NULL,NULL,1,'fa:16:3e:63:37:0e/6ef9ac2d-96f8-47d3-a964-05c5ef5f2d90',NULL,'6ef9ac2d-96f8-47d3-a964-05c5ef5f2d90','e7ee3d45-92a9-43a3-9ab0-40bd8d075433',0,NULL),
('2026-11-22 13:14:41',NULL,NULL,2,'fa:16:3e:34:05:83/655032af-04c6-4c69-badd-8cdd4880b4ce',NULL,'655032af-04c6-4c69-badd-8cdd4880b4ce','44b43f74-d5b3-4298-9c19-639f27993b59',0,NULL),
('2026-11-22 13:15:07',NULL,NULL,3,'fa:16:3e:dc:8a:7d/5ff378e6-d1d9-42f4-9b92-96a74d54aed2',NULL,'5ff378e6-d1d9-42f4-9b92-96a74d54aed2','555e52b6-108a-4e4d-801e-af68c8d5923c',0,NULL);
/*!40000 ALTER TABLE `virtual_interfaces` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `volume_id_mappings`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `volume_id_mappings` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `uuid` varchar(36) NOT NULL,
  `deleted` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `volume_id_mappings` WRITE;
/*!40000 ALTER TABLE `volume_id_mappings` DISABLE KEYS */;
/*!40000 ALTER TABLE `volume_id_mappings` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `volume_usage_cache`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `volume_usage_cache` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `deleted_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `volume_id` varchar(36) NOT NULL,
  `tot_last_refreshed` datetime DEFAULT NULL,
  `tot_reads` bigint(20) DEFAULT NULL,
  `tot_read_bytes` bigint(20) DEFAULT NULL,
  `tot_writes` bigint(20) DEFAULT NULL,
  `tot_write_bytes` bigint(20) DEFAULT NULL,
  `curr_last_refreshed` datetime DEFAULT NULL,
  `curr_reads` bigint(20) DEFAULT NULL,
  `curr_read_bytes` bigint(20) DEFAULT NULL,
  `curr_writes` bigint(20) DEFAULT NULL,
  `curr_write_bytes` bigint(20) DEFAULT NULL,
  `deleted` int(11) DEFAULT NULL,
  `instance_uuid` varchar(36) DEFAULT NULL,
  `project_id` varchar(36) DEFAULT NULL,
  `user_id` varchar(64) DEFAULT NULL,
  `availability_zone` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `volume_usage_cache` WRITE;
/*!40000 ALTER TABLE `volume_usage_cache` DISABLE KEYS */;
/*!40000 ALTER TABLE `volume_usage_cache` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

