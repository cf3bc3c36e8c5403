/** The HTTP side within somebody else's server: Hono, Fastify, Express, plain `node:http`, or whatever knows `Request` and `Response`. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Unavailable } from "@slipway/api/shared/Errors"
import type { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import type { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import type { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import type { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import * as Administration from "@slipway/domain/promise/Administration"
import { Terminals } from "@slipway/domain/sandbox/ports/Terminals"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { HttpRouter } from "effect/http"
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Server from "./Server.ts"
import { Connections } from "./server/connection/Connections.ts"
import { LiveResponses } from "./server/connection/LiveResponses.ts"
import * as WebHandler from "./server/connection/WebHandler.ts"
import * as Wire from "./server/connection/Wire.ts"
import { HeadCheck } from "./server/edge/HeadCheck.ts"
import { Previews } from "./server/preview/Previews.ts"
import { Routes } from "./server/Routes.ts"
import { type Given, Settings } from "./server/Settings.ts"

/** The path of `publicUrl` is where the host mounts it, unless `prefix` says otherwise. */
export type Options = Given

type Own = HttpRouter.HttpRouter | Settings | LiveResponses | Connections | Previews | Routes | HeadCheck | Server.Platform

type Needs<R> = Exclude<HttpRouter.Request.Without<R>, Own>

/** The services that the API needs: the domain's use cases and stores. */
export type Services = Needs<
  Layer.Services<ReturnType<typeof Server.routes<never, never>> | typeof HeadCheck.layer | typeof LiveResponses.layer>
>

type AdministrationPorts = AccessStore | MemberStore | PartnerStore | WebhookStore | WebhookSender

/**
 * The API within a server, and what its operator needs. `access`: grants and keys. Requests need a key: `createKey` also creates
 * the grant if its name is new. The secret of a key is in that result alone and cannot be read again.
 */
export interface Embedded<Provided = Services> extends Administration.Administration<AdministrationPorts> {
  /** Runs an effect on the services, such as `Secrets.use((secrets) => secrets.list(grantId, null))`. Rejects with its error. */
  run<A, E>(effect: Effect.Effect<A, E, Provided>): Promise<A>
  /**
   * Answers a web request. It never rejects. Aborting the request's signal, or cancelling the body of the response, ends what
   * is under way. `address`: the client's, or that of a proxy which the settings trust; without it the limits of one address
   * hold for all clients together (keys that are not valid, attempts to sign in), or not at all (requests under way).
   */
  fetch(request: Request, from?: { readonly address?: string | undefined }): Promise<Response>
  /** Answers a request of `node:http` whose body is still unread. */
  node(request: IncomingMessage, response: ServerResponse): void
  /**
   * Ends every event stream, waits up to 8 s for other requests, then releases the services. Later requests get a 503.
   * Safe to call twice.
   */
  close(): Promise<void>
}

const closed = Unavailable.make("The service is shutting down.", { "retry-after": "1" })

const refused = {
  status: closed.status,
  headers: { ...closed.headers, "cache-control": "no-store", "content-type": "application/json; charset=utf-8" },
  body: JSON.stringify({ error: { code: closed.code, message: closed.message } })
}

/** Requests that are not answered yet. */
class UnderWay {
  readonly #wires = new Set<object>()
  #idle: () => void = () => {}

  add(wire: Pick<Wire.Wire, "onClose">) {
    this.#wires.add(wire)
    wire.onClose(() => {
      this.#wires.delete(wire)
      if (this.#wires.size === 0) this.#idle()
    })
  }

  readonly idle = Effect.callback<void>((resume) => {
    this.#idle = () => resume(Effect.void)
    if (this.#wires.size === 0) this.#idle()
  })
}

const serve = Effect.fnUntraced(function*(pages: Server.Pages | undefined) {
  const app = yield* HttpRouter.toHttpEffect(Server.routes(pages))
  const live = yield* LiveResponses
  const underWay = new UnderWay()
  const answer = yield* WebHandler.make(app)
  const node = yield* NodeHttpServer.makeHandler(app, { scope: yield* Effect.scope })

  return {
    fetch: (request: Request, peer: string | null): Promise<Response> => {
      const wire = new Wire.WebWire(request, peer)
      underWay.add(wire)
      return answer(request, wire)
    },
    node: (request: IncomingMessage, response: ServerResponse) => {
      underWay.add({ onClose: (listener) => response.once("close", listener) })
      node(request, response)
    },
    drained: Effect.andThen(live.shutDown, Effect.timeoutOption(underWay.idle, Server.SHUTDOWN))
  }
})

/**
 * Builds the services, and rejects if one of them cannot be. Everything that `Server.layer` holds to holds here too, except what
 * only the owner of the connections can do: how many there are and how many of one address, how long the headers and the
 * body of a request may take and what is no HTTP at all, the size of headers that Node reads (16 KiB by default). A body's size,
 * readers that take nothing of a reply, requests of one address under way, and the headers of a web request are held here. There are no
 * terminals and no previews, which need the server's upgrades and hosts: a terminal is refused with 403 `terminal_off`.
 * `pages`: for people, such as `pages` of `@slipway/pages/Pages`; it may need more services. Without it only the API is served.
 */
export const make = async <E, Provided, R = never>(
  services: Layer.Layer<Provided, E> & Layer.Layer<Services | NoInfer<Needs<R>>, E>,
  options: Options,
  pages?: Server.Pages<never, R>
): Promise<Embedded<Provided>> => {
  const scope = Scope.makeUnsafe()
  const close = Effect.suspend(() => Scope.close(scope, Exit.void))
  const own = HeadCheck.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(LiveResponses.layer, Connections.layer, Routes.layer, Previews.layerOff)),
    Layer.provideMerge(Layer.mergeAll(services, Settings.layer(options), NodeHttpServer.layerHttpServices))
  )
  const { context, ...handlers } = await Effect.runPromise(
    Effect.flatMap(Layer.buildWithScope(own, scope), (context) =>
      // `services` has everything that the pages need. The host's server has no WebSocket for a terminal.
      Effect.map(
        Effect.provide(serve(pages as Server.Pages | undefined), Context.omit(Terminals)(context)),
        (served) => ({ ...served, context })
      )).pipe(
        Effect.provideService(Scope.Scope, scope),
        Effect.provideService(HttpRouter.RouterConfig, Server.routerConfig),
        Effect.onError(() => close)
      )
  )
  let closing: Promise<void> | null = null
  const run = <A, E>(effect: Effect.Effect<A, E, Provided>) =>
    // Built from `services`, which provide these.
    Effect.runPromise(Effect.provideContext(effect, context as Context.Context<never> as Context.Context<Provided>))
  return {
    ...Administration.administration<AdministrationPorts>(context, run),
    run,
    fetch: (request, { address } = {}) =>
      closing === null
        ? handlers.fetch(request, address ?? null)
        : Promise.resolve(new Response(refused.body, refused)),
    node: (request, response) => {
      if (closing === null) return handlers.node(request, response)
      response.writeHead(refused.status, refused.headers).end(refused.body)
    },
    close: () => closing ??= Effect.runPromise(Effect.andThen(handlers.drained, close))
  }
}
