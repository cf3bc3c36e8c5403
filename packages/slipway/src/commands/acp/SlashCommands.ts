/** Commands that the editor offers behind a slash. They are for this agent, not for the sandbox's. */
import type { AvailableCommand } from "@agentclientprotocol/sdk"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as Effect from "effect/Effect"
import { publishAll } from "../client/PublishPulls.ts"
import { pageOf } from "../client/server/Server.ts"
import { line } from "../terminal/EventText.ts"
import { openBrowser } from "../terminal/OpenBrowser.ts"
import type { AcpSession } from "./AcpSession.ts"
import { fenced } from "./PatchContent.ts"

export const available: Array<AvailableCommand> = [
  { name: "publish", description: "Publish the changes as a draft pull request" },
  { name: "diff", description: "Show the changes of the sandbox as a patch" },
  { name: "open", description: "Open the page of the sandbox in a browser" }
]

/** Bytes of a patch that is shown. */
const MAX_PATCH = 200_000

/** The name of the command, if the text is one. */
export const commandIn = (text: string): string | null => {
  const name = /^\/(\w+)\s*$/u.exec(text)?.[1]
  return available.some((one) => one.name === name) ? name ?? null : null
}

const diff = async ({ call, place: { repos }, server: { client } }: Bound, id: string): Promise<string> => {
  const texts: Array<string> = []
  for (const { fullName } of repos) {
    const patch = await call((signal) => client.diffFiles(id, { repo: fullName }, { signal }))
    const text = visible(new TextDecoder().decode(patch.subarray(0, MAX_PATCH)))
    const more = patch.length > MAX_PATCH ? `\n\nThe patch is longer. All of it: slipway diff ${id}` : ""
    texts.push(patch.length === 0 ? `No changes in ${line(fullName)}.` : `Changes in ${line(fullName)}:\n\n${fenced(text, "diff")}${more}`)
  }
  return texts.join("\n\n")
}

type Bound = Pick<AcpSession, "place" | "server"> & { readonly call: AcpSession["call"] }

/** Runs the command and returns its result as Markdown. */
export const run = async (session: AcpSession, name: string): Promise<string> => {
  const { place, sandbox, server } = session
  if (sandbox === null) return "There is no sandbox yet: send a prompt first."
  const { id } = sandbox
  switch (name) {
    case "publish": {
      const pulls = await Effect.runPromise(publishAll(server, id, place.repos))
      return pulls.map(({ pullRequest, repository }) => `${line(repository)}: ${line(pullRequest?.url ?? "no pull request")}`).join("\n\n")
    }
    case "diff":
      return await diff({ place, server, call: (request) => session.call(request) }, id)
    default: {
      const page = pageOf(server, id)
      const opened = await Effect.runPromise(openBrowser(page))
      return opened ? `${page} opens in the browser.` : `No browser can be started here. Open ${page}`
    }
  }
}
