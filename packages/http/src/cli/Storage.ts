/** The database a command or the service works on, and what is kept in it. */
import { Effect, Layer } from "effect"
import { EmbeddedPostgres } from "@slipway/adapters/embedded-postgres/EmbeddedPostgres"
import { LocalRepositories } from "@slipway/adapters/local-source/LocalRepositories"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as Database from "@slipway/adapters/postgres/Database"
import * as HintsPostgres from "@slipway/adapters/postgres/HintsPostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as PartnerStorePostgres from "@slipway/adapters/postgres/PartnerStorePostgres"
import * as SandboxStorePostgres from "@slipway/adapters/postgres/SandboxStorePostgres"
import * as SessionStorePostgres from "@slipway/adapters/postgres/SessionStorePostgres"
import * as SpendingPostgres from "@slipway/adapters/postgres/SpendingPostgres"
import * as WebhookStorePostgres from "@slipway/adapters/postgres/WebhookStorePostgres"
import * as WebhookSenderHttp from "@slipway/adapters/webhooks/WebhookSenderHttp"
import { Access } from "@slipway/domain/access/Access"
import { Members } from "@slipway/domain/access/Members"
import { Webhooks } from "@slipway/domain/partner/Webhooks"
import { Sessions } from "@slipway/domain/access/Sessions"
import { CreditPrice } from "@slipway/domain/partner/Credits"
import { Budgets } from "@slipway/domain/sandbox/Budget"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ActiveSandboxes"
import type { Settings } from "./Settings.ts"

const embedded = Effect.map(EmbeddedPostgres, ({ connection }) => Database.layer(connection)).pipe(Layer.unwrap)

/** `owner`: the service, which runs the embedded server; a command joins the one that runs, or runs one while it works. */
const database = ({ dataDir, databaseUrl, postgresAccount }: Settings, owner: boolean) => {
  const options = { dataDir, ...(postgresAccount === null ? {} : { account: postgresAccount }) }
  return databaseUrl !== null
    ? Database.layer({ url: databaseUrl })
    : embedded.pipe(
      Layer.provide(owner ? EmbeddedPostgres.layer(options) : EmbeddedPostgres.layerConnectOrStart(options))
    )
}

/** A migrated database and every store on it. */
export const layer = (settings: Settings, owner: boolean) =>
  Layer.mergeAll(Access.layer, Members.layer, Sessions.layer, Webhooks.layer).pipe(
    Layer.provideMerge(Layer.mergeAll(
      SandboxStorePostgres.layer.pipe(Layer.provide(Layer.succeed(MaxActiveSandboxes, settings.maxActiveSandboxes))),
      AccessStorePostgres.layer,
      SessionStorePostgres.layer,
      PartnerStorePostgres.layer,
      WebhookStorePostgres.layer,
      WebhookSenderHttp.layer({ allowPrivate: settings.webhookPrivate }),
      SpendingPostgres.layer.pipe(
        Layer.provide(Layer.succeed(Budgets, { sandbox: settings.sandboxBudget, grant: settings.grantBudget })),
        Layer.provide(Layer.succeed(CreditPrice, settings.creditPrice))
      ),
      LocalRepositories.layer
    )),
    Layer.provideMerge(Layer.mergeAll(HintsPostgres.layer, IdsNode.layer)),
    Layer.provideMerge(Migrations.layer),
    Layer.provideMerge(database(settings, owner))
  )
