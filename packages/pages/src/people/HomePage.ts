/** `/`: what this is, for who is not signed in; owners are led to the overview, others to where work begins. */
import { NotFound } from "@slipway/api/shared/Errors"
import { respond } from "@slipway/http/server/reply/Respond"
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { html } from "../html/Html.ts"
import * as Page from "../layout/Page.ts"

const welcome = html`<h1>Slipway</h1>
<p>Coding agents work here on your git repositories, each in a sandbox of its own.</p>
<p>You say what is to be done. The agent does it in a fresh copy of the repository, asks you before what you want to be asked about,
and shows every change as it comes. What you like becomes a draft pull request; what you do not is thrown away with its sandbox.</p>
<p><a class="button" href="/sign-in">Sign in</a></p>
<h2>If you have no way to sign in yet</h2>
<p>The operator of this service lets you in: ask for a sign-in link. On its machine, <code>slipway login</code> prints one.</p>
<p>Programs use keys instead, as the <a href="/docs">reference</a> tells. In a terminal, <code>slipway auth login</code> gets you one
through your browser.</p>`

/** For programs. */
const nothing = NotFound.make("There is nothing at this address.")

const homeOf = ({ visit: { place } }: Page.Person): string => place?.role === "owner" ? "/overview" : "/new"

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  yield* pages.anybody("/", {
    GET: (person) =>
      Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) =>
        headers["accept"]?.includes("text/html") !== true
          ? respond(nothing)
          : person === null
          ? Page.show({ title: "Welcome", body: welcome }, null)
          : Page.redirect(homeOf(person)))
  })
}))
