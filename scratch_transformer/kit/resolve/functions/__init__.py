"""What is a function and no class: of arrays, of sizes, with weights as arguments; masks, schedules, decoding."""
