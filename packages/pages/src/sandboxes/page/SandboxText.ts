/** `/sandboxes/:id/text`: the whole of a text that does not fit on the sandbox's page, as it was written, part by part. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect } from "effect"
import { beginning, endOfPiece } from "../../html/Fit.ts"
import { html } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { FIRST_PROMPT } from "../conversation/Items.ts"
import * as SandboxWindow from "../conversation/SandboxWindow.ts"
import { breadcrumb, idOf, noSandbox } from "./SandboxPage.ts"

/** Characters of one part: they fit on a page whatever they are. */
const PART = 24 * 1024

/** The output of the setup. */
const SETUP = "setup"

const noText = Refused.notFound("Text not found or expired.")

const numberOf = ({ url }: Page.Asked, name: string): Effect.Effect<number, Refused> => {
  const given = url.searchParams.get(name) ?? "0"
  return /^\d{1,15}$/u.test(given) ? Effect.succeed(Number(given)) : Effect.fail(Refused.bad("This link is out of date."))
}

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const windowOf = yield* SandboxWindow.make

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      const sandbox = yield* sandboxes.get(by, id)
      const key = asked.url.searchParams.get("item") ?? ""
      const at = yield* numberOf(asked, "at")
      const wanted = yield* numberOf(asked, "from")
      if (at > sandbox.lastSeq) return yield* noText

      const text = key === SETUP
        ? (yield* sandboxes.setup(by, id)).output
        : key === FIRST_PROMPT
        ? sandbox.prompt
        : at === 0
        ? (yield* sandboxes.messages(by, id, { after: 0, limit: SandboxWindow.WINDOW })).find((message) => message.id === key)?.text
        : (yield* windowOf(by, sandbox, at)).conversation.items.find((item) => item.key === key)?.text
      if (text === undefined || wanted > text.length) return yield* noText

      // No character is cut in two.
      const from = endOfPiece(text, 0, wanted)
      const end = endOfPiece(text, from, PART)
      const shown = beginning(text.slice(from, end), { bytes: Infinity }, (shown) => shown)
      const partFrom = (place: number) =>
        `/sandboxes/${id}/text?${new URLSearchParams({ item: key, at: String(at), from: String(place) }).toString()}`
      const body = html`${breadcrumb(sandbox)}
<h1>${key === SETUP ? "Output of the setup" : "All of the text"}</h1>
<p class="fine">Characters ${Math.min(from + 1, text.length)} to ${end} of ${text.length}, unformatted.</p>
${from > 0 && html`<p><a href="${partFrom(Math.max(0, from - PART))}">Previous</a></p>`}
<div class="as-written code">${shown}</div>
${end < text.length && html`<p><a href="${partFrom(end)}">Next</a></p>`}`
      return Page.show({ title: `Text: ${sandbox.title}`, place: "sandboxes", body }, member)
    },
    Effect.catchTags({ SandboxNotFound: () => Effect.fail(noSandbox), InvalidRequest: Effect.die })
  )
  return get
})
