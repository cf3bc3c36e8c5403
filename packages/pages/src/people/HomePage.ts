/** `/`: what this is, for people who are not signed in; others are led to the list of sandboxes. */
import { NotFound } from "@slipway/api/shared/Errors"
import { respond } from "@slipway/http/server/reply/Respond"
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { html } from "../html/Html.ts"
import * as Page from "../layout/Page.ts"

const welcome = html`<h1>Slipway</h1>
<p>Describe a task. An agent works on a fresh copy of your repository, asks when you want it to, and opens a draft pull request.</p>
<p><a class="button" href="/sign-in">Sign in</a></p>
<h2>No account yet?</h2>
<p>Ask your administrator for a sign-in link. On the server, <code>slipway sign-in-link</code> prints one.</p>
<p>For programs, see the <a href="/docs">API reference</a>. In a terminal, <code>slipway auth login</code> signs you in through your
browser.</p>`

/** For programs. */
const nothing = NotFound.make("There is nothing at this address.")

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  yield* pages.anybody("/", {
    GET: (person) =>
      Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) =>
        headers["accept"]?.includes("text/html") !== true
          ? respond(nothing)
          : person === null
          ? Page.show({ title: "Welcome", body: welcome }, null)
          : Page.redirect("/sandboxes"))
  })
  // The list of sandboxes has what this page had; bookmarks and links of messages still name it.
  yield* pages.anybody("/overview", { GET: () => Effect.succeed(Page.redirect("/sandboxes")) })
}))
