/** All stores in memory, as one layer: for tests and for embedding without a database. State dies with the layer. */
import * as Layer from "effect/Layer"
import type { Ids } from "../src/ids/Ids.ts"
import * as CiTrustStoreMemory from "./access/CiTrustStoreMemory.ts"
import * as DeviceLoginStoreMemory from "./access/DeviceLoginStoreMemory.ts"
import * as SessionStoreMemory from "./access/SessionStoreMemory.ts"
import * as AutomationStoreMemory from "./automation/AutomationStoreMemory.ts"
import * as HostConnectionsMemory from "./environment/HostConnectionsMemory.ts"
import * as SecretStoreMemory from "./environment/SecretStoreMemory.ts"
import * as BlobsMemory from "./files/BlobsMemory.ts"
import * as IdsMemory from "./ids/IdsMemory.ts"
import * as McpServerStoreMemory from "./mcp/McpServerStoreMemory.ts"
import * as ModelProviderStoreMemory from "./models/ModelProviderStoreMemory.ts"
import * as SpendingMemory from "./models/SpendingMemory.ts"
import * as PartnerStoreMemory from "./partner/PartnerStoreMemory.ts"
import * as WebhookStoreMemory from "./partner/WebhookStoreMemory.ts"
import * as SandboxStoreMemory from "./sandbox/SandboxStoreMemory.ts"
import * as FollowedRepositoriesMemory from "./source/FollowedRepositoriesMemory.ts"
import * as RepositoryAliasesMemory from "./source/RepositoryAliasesMemory.ts"
import * as RepositorySettingsMemory from "./source/RepositorySettingsMemory.ts"
import * as HintsMemory from "./store/HintsMemory.ts"

/** Parts that an embedder may replace. */
export interface Options {
  /** The source of ids, keys and tokens. Default: `IdsMemory.layer`, whose keys can be guessed; `IdsNode` of `@slipway/machine` cannot. */
  readonly ids?: Layer.Layer<Ids>
}

/**
 * The stores of sandboxes, leases, workers, setups, checkpoints, blobs, access, members, sessions, device logins, CI trusts, the audit
 * log, spending, secrets, connections to source hosts, MCP servers, providers of models, followed repositories, settings and aliases of
 * repositories, files of prompts, partners, webhooks and automations, with `Hints` and `Ids`. Limits such as `Policy` and
 * `MaxActiveSandboxes` are provided to this layer.
 */
export const layer = ({ ids = IdsMemory.layer }: Options = {}) =>
  // The later a line, the earlier it is built: a store finds those that share a transaction with it.
  AutomationStoreMemory.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(
      SandboxStoreMemory.layer,
      SpendingMemory.layer,
      WebhookStoreMemory.layer,
      SecretStoreMemory.layer,
      HostConnectionsMemory.layer,
      McpServerStoreMemory.layer,
      ModelProviderStoreMemory.layer,
      FollowedRepositoriesMemory.layer,
      RepositoryAliasesMemory.layer,
      RepositorySettingsMemory.layer
    )),
    Layer.provideMerge(PartnerStoreMemory.layer),
    Layer.provideMerge(Layer.mergeAll(SessionStoreMemory.layer, DeviceLoginStoreMemory.layer, CiTrustStoreMemory.layer)),
    Layer.provideMerge(Layer.mergeAll(BlobsMemory.layer, HintsMemory.layer, ids))
  )
