/** Every page for people. */
import { Effect, Layer } from "effect"
import { HttpRouter, type HttpServerRequest } from "effect/http"
import { NotFound } from "../api/Errors.ts"
import { Routes } from "../server/Routes.ts"
import * as Assets from "./Assets.ts"
import * as KeysPage from "./keys/KeysPage.ts"
import * as Page from "./Page.ts"
import * as SignInPages from "./people/SignInPages.ts"
import * as LocalPullPage from "./sandboxes/LocalPullPage.ts"
import * as SandboxesPages from "./sandboxes/SandboxesPages.ts"
import * as WebhooksPages from "./webhooks/WebhooksPages.ts"

/** Leads whoever opens the service in a browser to its pages. For programs there is nothing at this address. */
const Home = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const routes = yield* Routes
  routes.declare("/", ["GET", "HEAD"], "pages")
  yield* router.add("GET", "/", (request: HttpServerRequest.HttpServerRequest) =>
    request.headers["accept"]?.includes("text/html") === true
      ? Effect.succeed(Page.redirect(Page.HOME))
      : Effect.fail(NotFound.make("There is nothing at this address.")))
}))

export const layer = Layer.mergeAll(
  Assets.layer,
  Home,
  SignInPages.layer,
  KeysPage.layer,
  SandboxesPages.layer,
  LocalPullPage.layer,
  WebhooksPages.layer
)
