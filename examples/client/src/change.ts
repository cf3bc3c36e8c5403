/** A change of a repository, from its prompt to its pull request: `npm run change -- owner/name "what to do"`. */
import { SlipwayClient, SlipwayError } from "@slipway/client"
import { createInterface } from "node:readline/promises"

const { SLIPWAY_API_KEY = "", SLIPWAY_URL = "http://127.0.0.1:4000" } = process.env
const [fullName = "", prompt = ""] = process.argv.slice(2)
const client = new SlipwayClient({ baseUrl: SLIPWAY_URL, apiKey: SLIPWAY_API_KEY })

const stop = new AbortController()
process.once("SIGINT", () => stop.abort())

/** Whether a person lets the agent do it. */
const agrees = async (shown: string): Promise<boolean> => {
  if (!process.stdin.isTTY) return true
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  try {
    return /^y/iu.test(await terminal.question(`${shown}\nApprove? [y/n] `, { signal: stop.signal }))
  } finally {
    terminal.close()
  }
}

const work = async (id: string): Promise<boolean> => {
  // Each message comes as all of it so far.
  const said = new Map<string, string>()
  for await (const event of client.streamEvents(id, { since: 0, signal: stop.signal })) {
    if (event.type === "message.updated" && event.data.kind === "text") said.set(event.data.part_id, event.data.text)
    if (event.type === "approval.requested") {
      const { approval_id, preview = {} } = event.data
      if (await agrees(Object.values(preview).join("\n"))) await client.approve(id, approval_id)
      else await client.deny(id, approval_id, { reason: "Not that way." })
    }
    if (event.type === "turn.completed") {
      process.stdout.write(`${[...said.values()].join("\n")}\n`)
      return event.data.state === "succeeded"
    }
  }
  return false
}

try {
  const { id } = await client.createSandbox({ repos: [{ fullName }], prompt, toolApprovalMode: "prompt" })
  process.stdout.write(`${SLIPWAY_URL}/sandboxes/${id}\n`)
  try {
    if (await work(id)) {
      const { pullRequest } = await client.publishPullRequest(id)
      process.stdout.write(`${pullRequest?.url ?? "It is published in the background."}\n`)
    } else process.exitCode = 1
  } finally {
    await client.terminateSandbox(id)
  }
} catch (error) {
  if (!stop.signal.aborted) {
    if (!(error instanceof SlipwayError)) throw error
    process.stderr.write(`${error.message} (${error.code}, ${error.requestId ?? "no reply"})\n`)
  }
  process.exitCode = 1
}
