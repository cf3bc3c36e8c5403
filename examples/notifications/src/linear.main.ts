import { toLinear } from "./Linear.ts"
import { run } from "./Receiver.ts"

const { LINEAR_API_KEY, LINEAR_URL = "https://api.linear.app/graphql", SLIPWAY_URL = "http://localhost:8787" } = process.env
if (LINEAR_API_KEY === undefined) throw new Error("LINEAR_API_KEY is not set")
run(toLinear(LINEAR_URL, LINEAR_API_KEY, SLIPWAY_URL))
