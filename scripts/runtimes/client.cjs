const { SlipwayClient } = require("@slipway/client")

const main = async () => {
  const client = new SlipwayClient({ baseUrl: process.env.SLIPWAY_URL, apiKey: process.env.SLIPWAY_API_KEY })
  const { id } = await client.createSandbox({ repos: [{ fullName: "acme/shop" }], prompt: "Say hello." })
  const { status } = await client.getSandbox(id)
  process.stdout.write(`client: ${status}\n`)
}
main()
