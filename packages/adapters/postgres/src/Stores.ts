/** All stores of one database, as one layer. */
import type * as PgClient from "@effect/sql-pg/PgClient"
import type { Blobs } from "@slipway/domain/files/ports/Blobs"
import { drawnFrom } from "@slipway/domain/ids/DrawnIds"
import { Ids } from "@slipway/domain/ids/Ids"
import * as StoreClock from "@slipway/domain/sandbox/usecases/StoreClock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { randomInt } from "node:crypto"
import * as AccessStorePostgres from "./access-store/AccessStorePostgres.ts"
import * as ArtifactStorePostgres from "./artifact-store/ArtifactStorePostgres.ts"
import * as AutomationStorePostgres from "./automation-store/AutomationStorePostgres.ts"
import * as BlobsPostgres from "./blobs/BlobsPostgres.ts"
import * as CheckpointsPostgres from "./checkpoints/CheckpointsPostgres.ts"
import * as CiTrustStorePostgres from "./ci-trust-store/CiTrustStorePostgres.ts"
import * as Database from "./Database.ts"
import * as DeviceLoginStorePostgres from "./device-login-store/DeviceLoginStorePostgres.ts"
import * as FeedbackWatchesPostgres from "./feedback-watches/FeedbackWatchesPostgres.ts"
import * as FollowedRepositoriesPostgres from "./followed-repositories/FollowedRepositoriesPostgres.ts"
import * as HintsPostgres from "./HintsPostgres.ts"
import * as HostConnectionsPostgres from "./host-connections/HostConnectionsPostgres.ts"
import * as LeasesPostgres from "./leases/LeasesPostgres.ts"
import * as MaintenancePostgres from "./maintenance/MaintenancePostgres.ts"
import * as McpServerStorePostgres from "./mcp-server-store/McpServerStorePostgres.ts"
import * as Migrations from "./Migrations.ts"
import * as ModelProviderStorePostgres from "./model-provider-store/ModelProviderStorePostgres.ts"
import { DatabaseSchema } from "./options/DatabaseSchema.ts"
import * as PartnerStorePostgres from "./partner-store/PartnerStorePostgres.ts"
import * as PromptFilesPostgres from "./prompt-files/PromptFilesPostgres.ts"
import * as RepositoryAliasesPostgres from "./repository-aliases/RepositoryAliasesPostgres.ts"
import * as RepositorySettingsPostgres from "./repository-settings/RepositorySettingsPostgres.ts"
import * as SandboxDashboardPostgres from "./sandbox-dashboard/SandboxDashboardPostgres.ts"
import * as SandboxStorePostgres from "./sandbox-store/SandboxStorePostgres.ts"
import { SecretsKey } from "./secret-store/SecretsKey.ts"
import * as SecretStorePostgres from "./secret-store/SecretStorePostgres.ts"
import * as SessionStorePostgres from "./session-store/SessionStorePostgres.ts"
import * as SetupsPostgres from "./setups/SetupsPostgres.ts"
import * as SpendingPostgres from "./spending/SpendingPostgres.ts"
import * as StoreHealthPostgres from "./StoreHealthPostgres.ts"
import * as WebhookStorePostgres from "./webhook-store/WebhookStorePostgres.ts"
import * as WorkersPostgres from "./workers/WorkersPostgres.ts"

/** Options that do not concern the connection. */
export interface StoreOptions {
  /** Where the bytes of files are. Default: the database. */
  readonly blobs?: Layer.Layer<Blobs>
  /** The place of checkpoints. Default: the database. */
  readonly checkpoints?: Parameters<typeof CheckpointsPostgres.layerIn>[0]
  /** The source of ids, keys and tokens. Default: the cryptography of Node. */
  readonly ids?: Layer.Layer<Ids>
  /**
   * The key of stored secrets. Default: `.slipway/secrets.key`, which the first webhook makes. Secrets of repositories need a given key
   * unless `shared` is `false`: then no other machine uses the database.
   */
  readonly secretsKey?: Parameters<typeof SecretsKey.layer>[0]
}

const drawn = Layer.sync(Ids, () => drawnFrom(() => randomInt(2 ** 47) / 2 ** 47))

/**
 * The stores over a connection that the caller provides, whose `search_path` begins with the schema of the tables: sandboxes, leases,
 * workers, setups, checkpoints, blobs, access, members, sessions, device logins, the audit log, spending, secrets, connections to source
 * hosts, MCP servers, providers of models, settings and aliases of repositories, followed repositories, files of prompts, artifacts,
 * partners, webhooks, automations and the health of the store, with `Hints`, `Ids` and the database's clock. Limits such as `Policy`,
 * `MaxActiveSandboxes`, `Budgets` and `CreditPrice` are provided to this layer.
 */
export const layerConnected = (
  { blobs, checkpoints, ids = drawn, secretsKey = { file: ".slipway/secrets.key", shared: true } }: StoreOptions = {}
) =>
  StoreClock.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(
      LeasesPostgres.layer,
      MaintenancePostgres.layer,
      SandboxDashboardPostgres.layer,
      checkpoints === undefined ? CheckpointsPostgres.layer : CheckpointsPostgres.layerIn(checkpoints),
      SetupsPostgres.layer,
      FeedbackWatchesPostgres.layer,
      WorkersPostgres.layer,
      SandboxStorePostgres.layer,
      AccessStorePostgres.layer,
      DeviceLoginStorePostgres.layer,
      CiTrustStorePostgres.layer,
      SessionStorePostgres.layer,
      SecretStorePostgres.layer,
      HostConnectionsPostgres.layer,
      McpServerStorePostgres.layer,
      ModelProviderStorePostgres.layer,
      RepositoryAliasesPostgres.layer,
      RepositorySettingsPostgres.layer,
      PartnerStorePostgres.layer,
      ArtifactStorePostgres.layer,
      PromptFilesPostgres.layer,
      WebhookStorePostgres.layer,
      AutomationStorePostgres.layer,
      SpendingPostgres.layer,
      FollowedRepositoriesPostgres.layer,
      StoreHealthPostgres.layer
    )),
    Layer.provideMerge(Layer.mergeAll(
      blobs ?? BlobsPostgres.layer,
      HintsPostgres.layer,
      ids,
      SecretsKey.layer(secretsKey)
    ))
  )

/** A client of `PgClient.layer` or `PgClient.layerFrom`. */
export type Client<E = never> = Layer.Layer<PgClient.PgClient | SqlClient, E>

/** Options of the stores of one database. */
export interface Options<E = never> extends StoreOptions {
  /**
   * The address of the database, or the embedder's own client. The `search_path` of an own client's connections must begin with the
   * schema, for example by `startupOptions: "-c search_path=slipway"`, and its pool needs at least three connections.
   */
  readonly database: Redacted.Redacted | Database.DatabaseLocation | { readonly client: Client<E> }
  /** The schema with the tables, which the migration makes. Lower case, as in SLIPWAY_DATABASE_SCHEMA. Default: `slipway`. */
  readonly schema?: string
  /** The most connections for writes (default 10) and for reads (default 4), besides one for leases. Not for an own client. */
  readonly pool?: { readonly writing?: number; readonly reading?: number }
  /** `false`: the tables are there, because the embedder ran `Migrations.statements`. Default: they are made or upgraded. */
  readonly migrate?: boolean
}

type Migrated = Layer.Layer<never, Layer.Error<typeof Migrations.layer | typeof Migrations.layerCheck>, SqlClient>

/** How long a start waits for a database that does not answer yet. */
const STARTUP = Duration.seconds(60)

type Connected<E> = Layer.Layer<PgClient.PgClient | SqlClient, E | Database.DatabaseUnreachable | SqlError | Layer.Error<Migrated>>

const connected = <E>({ database, migrate = true, pool }: Options<E>): Connected<E> => {
  const migrations: Migrated = migrate ? Migrations.layer : Migrations.layerCheck
  if ("client" in database) return migrations.pipe(Layer.provideMerge(database.client))
  const location: Database.DatabaseLocation = Redacted.isRedacted(database) ? { url: database } : database
  const { url } = location
  return Layer.unwrap(Effect.gen(function*() {
    if (url !== undefined) yield* Database.reach(url, STARTUP)
    return Database.layer(location, pool).pipe(Layer.provideMerge(Layer.provide(migrations, Database.layerMigrating(location))))
  }))
}

/**
 * All stores of one database: see `layerConnected`. Without an own client it waits up to a minute for a database that does not answer
 * yet.
 */
export const layer = <E = never>({ schema = "slipway", ...options }: Options<E>) =>
  layerConnected(options).pipe(Layer.provideMerge(connected(options)), Layer.provideMerge(Layer.succeed(DatabaseSchema, schema)))
