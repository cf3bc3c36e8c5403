/** Every page for people. */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerError, type HttpServerRequest } from "effect/http"
import * as Assets from "./Assets.ts"
import * as KeysPage from "./KeysPage.ts"
import * as LocalPullPage from "./LocalPullPage.ts"
import * as Page from "./Page.ts"
import * as SandboxesPages from "./SandboxesPages.ts"
import * as SignInPages from "./SignInPages.ts"
import * as WebhooksPages from "./WebhooksPages.ts"

/** Leads whoever opens the service in a browser to its pages. For programs there is nothing at this address. */
const Home = HttpRouter.use((router) =>
  router.add("GET", "/", (request: HttpServerRequest.HttpServerRequest) =>
    request.headers["accept"]?.includes("text/html") === true
      ? Effect.succeed(Page.redirect(Page.HOME))
      : Effect.fail(new HttpServerError.HttpServerError({ reason: new HttpServerError.RouteNotFound({ request }) })))
)

export const layer = Layer.mergeAll(
  Assets.layer,
  Home,
  SignInPages.layer,
  KeysPage.layer,
  SandboxesPages.layer,
  LocalPullPage.layer,
  WebhooksPages.layer
)
