// The client in a worker runtime.
import { SlipwayClient } from "@slipway/client"

export default {
  async fetch(_request, { SLIPWAY_API_KEY, SLIPWAY_URL }) {
    const client = new SlipwayClient({ baseUrl: SLIPWAY_URL, apiKey: SLIPWAY_API_KEY })
    const { id } = await client.createSandbox({ repos: [{ fullName: "acme/shop" }], prompt: "Say hello." })
    const { status } = await client.getSandbox(id)
    return new Response(`client: ${status}`)
  }
}
