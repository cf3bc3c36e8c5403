import { SlipwayClient } from "@slipway/client"

const { SLIPWAY_API_KEY = "", SLIPWAY_URL = "http://127.0.0.1:4000" } = process.env
const client = new SlipwayClient({ baseUrl: SLIPWAY_URL, apiKey: SLIPWAY_API_KEY })

const sandbox = await client.createSandbox({
  repos: [{ fullName: "sample/shop" }],
  prompt: "Add a page about discounts.",
  toolApprovalMode: "prompt"
})

for await (const event of client.streamEvents(sandbox.id)) {
  if (event.type === "approval.requested") await client.approve(sandbox.id, event.data.approval_id)
  if (event.type === "tool.updated") process.stdout.write(`${event.data.tool}: ${event.data.status}\n`)
  if (event.type === "turn.completed") break
}

const { pullRequest } = await client.publishPullRequest(sandbox.id)
process.stdout.write(`${pullRequest?.url}\n`)
await client.terminateSandbox(sandbox.id)
