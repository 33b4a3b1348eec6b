"""What is known of programs and frameworks that people run: one file of data each, next to this one."""
