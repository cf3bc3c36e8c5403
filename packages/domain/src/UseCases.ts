/** All use cases as one layer, for services that offer everything. Each use case also has a layer of its own. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Access } from "./access/usecases/Access.ts"
import { CiTrusts } from "./access/usecases/CiTrusts.ts"
import { DeviceLogins } from "./access/usecases/DeviceLogins.ts"
import { Members } from "./access/usecases/Members.ts"
import { Sessions } from "./access/usecases/Sessions.ts"
import { Automations } from "./automation/usecases/Automations.ts"
import { Secrets } from "./environment/usecases/Secrets.ts"
import { Artifacts } from "./files/usecases/Artifacts.ts"
import { Files } from "./files/usecases/Files.ts"
import { Uploads } from "./files/usecases/Uploads.ts"
import { McpConnections } from "./mcp/usecases/McpConnections.ts"
import { McpServers } from "./mcp/usecases/McpServers.ts"
import { ModelProviders } from "./models/usecases/ModelProviders.ts"
import { Partners } from "./partner/usecases/Partners.ts"
import { Webhooks } from "./partner/usecases/Webhooks.ts"
import { HandleNews } from "./publishing/usecases/HandleNews.ts"
import { Publishing } from "./publishing/usecases/Publishing.ts"
import { Sandboxes } from "./sandbox/usecases/Sandboxes.ts"
import { SandboxEvents } from "./sandbox/usecases/SandboxEvents.ts"
import { AutomationsListener } from "./source/ports/NewsListeners.ts"

/** Those for operators and their partners, which need stores and a `WebhookSender`, but no source host and no trees. */
export const layerAdministration = Layer.mergeAll(
  Access.layer,
  DeviceLogins.layer,
  CiTrusts.layer,
  Members.layer,
  Sessions.layer,
  Secrets.layer,
  McpServers.layer,
  McpConnections.layer,
  ModelProviders.layer,
  Webhooks.layer
)

/** Automations listen to news of repositories. */
const listening = Layer.effect(AutomationsListener, Effect.map(Automations, ({ onNews }) => onNews))

const work = Layer.mergeAll(
  HandleNews.layer.pipe(
    Layer.provide(listening),
    Layer.provideMerge(Layer.merge(Publishing.layer, Automations.layer)),
    Layer.provideMerge(Sandboxes.layer)
  ),
  SandboxEvents.layer,
  Uploads.layer,
  Artifacts.layer,
  Partners.layer
)

/** The other use cases, with files of trees on any machine: `RemoteTrees`. */
export const layerWork = Layer.merge(work, Files.layerReaching)

/** All use cases, in a service whose working trees are all on this machine. */
export const layer = Layer.mergeAll(layerAdministration, work, Files.layer)
