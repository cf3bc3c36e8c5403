/** The server as layers. It needs the domain's services, a listening address, settings and, if people are to use it, pages. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Api } from "@slipway/api/Api"
import { InternalApi } from "@slipway/api/InternalApi"
import { MAX_MESSAGE_BYTES } from "@slipway/api/schema/TerminalMessages"
import { Duration, Effect, type FileSystem, Layer, type Path, type Scope } from "effect"
import { type Etag, type HttpPlatform, HttpRouter, type HttpServer, type HttpServerError } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import type { IncomingMessage } from "node:http"
import * as ArtifactsHandlers from "./handlers/ArtifactsHandlers.ts"
import * as AutomationTriggerHandler from "./handlers/AutomationTriggerHandler.ts"
import * as CheckpointsHandlers from "./handlers/CheckpointsHandlers.ts"
import * as Documents from "./handlers/Documents.ts"
import * as EventsHandlers from "./handlers/EventsHandlers.ts"
import * as FeedbackHandlers from "./handlers/FeedbackHandlers.ts"
import * as FilesHandlers from "./handlers/FilesHandlers.ts"
import * as HealthHandlers from "./handlers/HealthHandlers.ts"
import * as AuditHandlers from "./handlers/internal/AuditHandlers.ts"
import * as AutomationsHandlers from "./handlers/internal/AutomationsHandlers.ts"
import * as InternalHandlers from "./handlers/internal/InternalHandlers.ts"
import * as KeepingHandlers from "./handlers/internal/KeepingHandlers.ts"
import * as McpServersHandlers from "./handlers/internal/McpServersHandlers.ts"
import * as ModelsHandlers from "./handlers/internal/ModelsHandlers.ts"
import * as RepositorySettingsHandlers from "./handlers/internal/RepositorySettingsHandlers.ts"
import * as ReviewsHandlers from "./handlers/internal/ReviewsHandlers.ts"
import * as TrustedRefsHandlers from "./handlers/internal/TrustedRefsHandlers.ts"
import * as WebhooksHandlers from "./handlers/internal/WebhooksHandlers.ts"
import * as MessagesHandlers from "./handlers/MessagesHandlers.ts"
import * as MetricsHandlers from "./handlers/MetricsHandlers.ts"
import * as PartnerHandlers from "./handlers/PartnerHandlers.ts"
import * as PullRequestsHandlers from "./handlers/PullRequestsHandlers.ts"
import * as SandboxesHandlers from "./handlers/SandboxesHandlers.ts"
import * as SourceHostEventsHandler from "./handlers/SourceHostEventsHandler.ts"
import * as TerminalHandler from "./handlers/TerminalHandler.ts"
import * as UploadsHandlers from "./handlers/UploadsHandlers.ts"
import * as McpEndpoint from "./mcp/McpEndpoint.ts"
import * as ProtectedResource from "./mcp/ProtectedResource.ts"
import * as Authenticated from "./server/access/Authenticated.ts"
import { Connections } from "./server/connection/Connections.ts"
import { LiveResponses } from "./server/connection/LiveResponses.ts"
import * as NodeServer from "./server/connection/NodeServer.ts"
import * as Edge from "./server/edge/Edge.ts"
import { HeadCheck } from "./server/edge/HeadCheck.ts"
import * as PreviewProxy from "./server/preview/PreviewProxy.ts"
import { Previews } from "./server/preview/Previews.ts"
import * as JsonBody from "./server/request/JsonBody.ts"
import { Routes } from "./server/Routes.ts"
import { Settings } from "./server/Settings.ts"

const Handlers = Layer.mergeAll(
  SandboxesHandlers.layer,
  MessagesHandlers.layer,
  ArtifactsHandlers.layer,
  CheckpointsHandlers.layer,
  EventsHandlers.layer,
  FilesHandlers.layer,
  UploadsHandlers.layer,
  PullRequestsHandlers.layer,
  FeedbackHandlers.layer,
  PartnerHandlers.layer,
  HealthHandlers.layer,
  MetricsHandlers.layer
).pipe(Layer.provide([Authenticated.layer, JsonBody.layer]))

/** Pages for people beside the API: those of `@slipway/pages`, or others. */
export interface Pages<E = never, R = never> {
  readonly routes: Layer.Layer<never, E, R>
  /** Makes the answer to browsers that ask for an address that does not exist. Its scope ends with the server. */
  readonly notFound: Effect.Effect<Edge.NotFoundPage, E, R | Scope.Scope>
}

const api = Layer.mergeAll(
  HttpApiBuilder.layer(Api).pipe(Layer.provide(Handlers)),
  HttpApiBuilder.layer(InternalApi).pipe(
    Layer.provide(
      Layer.mergeAll(
        InternalHandlers.layer,
        WebhooksHandlers.layer,
        AuditHandlers.layer,
        TrustedRefsHandlers.layer,
        RepositorySettingsHandlers.layer,
        McpServersHandlers.layer,
        ModelsHandlers.layer,
        AutomationsHandlers.layer,
        KeepingHandlers.layer,
        ReviewsHandlers.layer
      ).pipe(Layer.provide([Authenticated.layer, JsonBody.layer]))
    )
  ),
  Documents.layer,
  SourceHostEventsHandler.layer,
  AutomationTriggerHandler.layer,
  TerminalHandler.layer,
  McpEndpoint.layer,
  ProtectedResource.layer
)

/** Every route with its middleware, for a router. Without `pages` every answer is for programs. */
export const routes = <E = never, R = never>(pages?: Pages<E, R>) => {
  const added: Layer.Layer<never, E, R> = pages?.routes ?? Layer.empty
  const notFound: Effect.Effect<Edge.NotFoundPage | null, E, R | Scope.Scope> = pages?.notFound ?? Effect.succeed(null)
  return Layer.mergeAll(api, added, Edge.layer.pipe(Layer.provide(Layer.effect(Edge.NotFoundPage, notFound))))
}

export const routerConfig = {
  caseSensitive: true,
  ignoreDuplicateSlashes: false,
  ignoreTrailingSlash: false,
  // Lengths are the schemas' business; headers as a whole are limited.
  maxParamLength: 16 * 1024
} as const

/** How long a shutdown waits for requests under way, so that the whole of it takes less than 10 s (docs/decisions/5). */
export const SHUTDOWN = Duration.seconds(8)

/** The services that the server of Node gives to routes. Named here because published declarations do not name the package that has it. */
export type Platform = HttpPlatform.HttpPlatform | Etag.Generator | FileSystem.FileSystem | Path.Path

/** Listens, and on shutdown first ends the streams, then waits for requests under way. */
export const layer = <E = never, R = never>(listen: { readonly host?: string; readonly port: number }, pages?: Pages<E, R>) => {
  const server = Layer.unwrap(Effect.gen(function*() {
    const { keepAlive } = yield* Settings
    const { guard } = yield* Connections
    const previews = yield* Previews
    const { answer } = yield* HeadCheck
    const listening: Layer.Layer<HttpServer.HttpServer | Platform, HttpServerError.ServeError> = NodeHttpServer.layer(() => {
      const upgrades = (request: IncomingMessage) => previews.isFor(request.headers.host) && PreviewProxy.isWebSocket(request)
      const server = NodeServer.make({ keepAlive, upgrades, answer })
      guard(server)
      previews.prepare(server)
      return server
    }, {
      ...listen,
      gracefulShutdownTimeout: SHUTDOWN,
      // Compression would take memory for each terminal, and reveal lengths of secrets.
      websocket: { maxPayload: MAX_MESSAGE_BYTES, maxFragments: 64, perMessageDeflate: false }
    })
    return listening
  }))
  // Built last, so that it is the first to end.
  const drain = Layer.effectDiscard(Effect.gen(function*() {
    const live = yield* LiveResponses
    yield* Effect.addFinalizer(() => live.shutDown)
  }))
  return drain.pipe(
    Layer.provideMerge(HttpRouter.serve(routes(pages), { routerConfig, disableLogger: true })),
    Layer.provideMerge(server),
    Layer.provideMerge(HeadCheck.layer),
    Layer.provideMerge(Layer.mergeAll(LiveResponses.layer, Connections.layer, Routes.layer, Previews.layer))
  )
}
