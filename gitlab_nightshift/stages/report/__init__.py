"""What people look at, made from records alone: job log, page, JUnit, dotenv."""
