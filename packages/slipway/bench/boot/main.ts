import { alone } from "../Alone.ts"
import { measure } from "./Boot.ts"
await alone(measure)
