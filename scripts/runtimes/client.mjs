// A client of a server that the environment names.
import { SlipwayClient } from "@slipway/client"

const client = new SlipwayClient({ baseUrl: process.env.SLIPWAY_URL, apiKey: process.env.SLIPWAY_API_KEY })
const { id } = await client.createSandbox({ repos: [{ fullName: "acme/shop" }], prompt: "Say hello." })
for await (const event of client.streamEvents(id)) if (event.type === "sandbox.status") break
const { status } = await client.getSandbox(id)
process.stdout.write(`client: ${status}\n`)
