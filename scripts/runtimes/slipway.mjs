// The HTTP API in memory, mounted at /slipway.
import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import * as Stores from "@slipway/domain/memory/Stores"
import * as UseCases from "@slipway/domain/UseCases"
import * as Embed from "@slipway/http/Embed"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as WebhookSenderHttp from "@slipway/machine/webhooks/WebhookSenderHttp"
import { Layer, Redacted } from "effect"

const services = UseCases.layer.pipe(
  Layer.provideMerge(MemoryMachine.layer({ repositories: { "acme/shop": { "README.md": "# Shop\n" } } })),
  Layer.provideMerge(WebhookSenderHttp.layer({ allowPrivate: false })),
  Layer.provideMerge(Stores.layer({ ids: IdsNode.layer }))
)

export const slipway = await Embed.make(services, { publicUrl: "http://127.0.0.1/slipway", cursorKey: Redacted.make("signs cursors") })
export const { key } = await slipway.access.createKey({ grant: "acme", label: "test", scopes: ["sandboxes"], kind: "live" })
