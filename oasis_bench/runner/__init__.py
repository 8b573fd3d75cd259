"""An experiment carried out: plan, place, store; and runs merged into one."""
